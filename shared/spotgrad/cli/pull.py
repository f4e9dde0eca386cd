"""``pull``: a model version on this machine, proved to be the one that was committed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spotgrad.cli.files import write_atomically
from spotgrad.cli.options import Copy
from spotgrad.cli.output import Output, size_text
from spotgrad.errors import Malformed, NotFound
from spotgrad.ports import ObjectReader
from spotgrad.protocol.head import Head, ObjectRef
from spotgrad.protocol.recipe import EMA, SERVER
from spotgrad.protocol.tensors import digest
from spotgrad.steps.chain import read_head, version_entries

__all__ = ["DEFAULT_OUTPUT", "Pulled", "pull", "pull_model"]

DEFAULT_OUTPUT: Final = Path("model.safetensors")


@dataclass(frozen=True)
class Pulled:
    """A model file on this machine."""

    job: str
    path: Path
    version: int
    sha256: str
    size_bytes: int


def pull(
    store: ObjectReader,
    job: str,
    path: Path,
    output: Output,
    *,
    version: int | None = None,
    copy: Copy | None = None,
) -> None:
    """Download a version and say where it is; raises as ``pull_model`` does."""
    pulled = pull_model(store, job, version, path, copy=copy)
    size = size_text(pulled.size_bytes)
    output.say(f"version {pulled.version} of {job}, {size}: {pulled.path}", "green")
    output.document(pulled)


def pull_model(
    store: ObjectReader, job: str, version: int | None, path: Path, *, copy: Copy | None = None
) -> Pulled:
    """Write a version to ``path`` (a file, or a folder to put it in).

    Without ``version`` it is the final one, or else the latest; without ``copy`` its ema where the
    job keeps one, else the server copy. An older file is replaced.

    Raises:
        NotFound: no such job or version, or it has expired.
        Malformed: its bytes are not those that were committed; nothing is written.
    """
    number, objects = _committed(read_head(store, job), version, store)
    committed = _chosen(job, number, objects, copy)
    try:
        body = store.get(committed.key).body
    except NotFound as error:
        raise NotFound(
            f"version {number} of {job} has expired; rebuild it: "
            f"spotgrad replay {job} --version {number} --output {path}"
        ) from error
    if digest(body) != committed.sha256:
        raise Malformed(
            f"{committed.key}: not the bytes that were committed; see spotgrad audit {job}"
        )
    target = path / DEFAULT_OUTPUT if path.is_dir() else path
    write_atomically(target, body)
    return Pulled(job, target, number, committed.sha256, len(body))


def _chosen(
    job: str, number: int, objects: Mapping[str, ObjectRef], copy: Copy | None
) -> ObjectRef:
    found = objects.get(copy or (EMA if EMA in objects else SERVER))
    if found is None:
        raise NotFound(f"version {number} of {job} has no {copy} copy: its job says no merge.ema")
    return found


def _committed(
    head: Head, version: int | None, store: ObjectReader
) -> tuple[int, Mapping[str, ObjectRef]]:
    """Return number and objects of the version that is wanted."""
    default = head.version if head.final is None else head.final.version
    wanted = default if version is None else version
    if wanted is None or head.version is None:
        raise NotFound(f"{head.job} has no version yet: it is {head.state}")
    if wanted == head.version:
        return wanted, head.objects  # no need to walk the chain
    for entry in version_entries(store, head):
        if entry.version == wanted and entry.server is not None:
            return wanted, entry.written
    raise NotFound(f"{head.job} has no version {wanted}; the latest is {head.version}")
