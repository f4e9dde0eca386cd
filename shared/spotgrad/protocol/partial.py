"""``partial/<job>/<epoch>/<subtask>/<attempt>.safetensors``: a training subtask, cut off.

Cut between two batches, with all that the next attempt needs to go on as if nothing had happened.
Not a result: nobody merges it. The worker alone knows what ``state`` and the tensors mean; here
they are only kept whole. Invariant: what ``read_partial`` returns is, bit for bit, what
``write_partial`` was given, or it raises.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from numpy.typing import NDArray
from pydantic import Field, JsonValue

from spotgrad.errors import Malformed
from spotgrad.protocol.job import JobName
from spotgrad.protocol.result import Base, Header
from spotgrad.protocol.tensors import decode, digest, encode
from spotgrad.protocol.wire import Identifier, Part, Sha256, SubtaskText

__all__ = ["Partial", "PartialMetadata", "Position", "read_partial", "write_partial"]

_SEAL: Final = "sha256"
"""The header's second entry: the digest of the file as it would be without this entry."""


class Position(Part):
    """How far an attempt came: whole passes, batches of the next one, optimizer steps in all."""

    passes: int = Field(ge=0)
    batches: int = Field(ge=0)
    steps: int = Field(ge=0)

    @property
    def order(self) -> tuple[int, int]:
        """Return what grows with every batch of one subtask."""
        return self.passes, self.batches


class PartialMetadata(Header):
    """The header of a partial."""

    what: ClassVar[str] = "partial header"

    job: JobName
    run: Identifier
    epoch: int = Field(ge=0)
    subtask: SubtaskText
    attempt: Identifier
    worker: str
    base: Base
    """The version that the first attempt began from; the result names it, too."""
    code_sha256: Sha256 | None
    position: Position
    state: JsonValue
    """Optimizer, schedulers, random generators and sums; it refers to the tensors by name."""


@dataclass(frozen=True, eq=False)
class Partial:
    """A partial as it was written; the arrays are read-only."""

    metadata: PartialMetadata
    tensors: dict[str, NDArray[Any]]


def write_partial(metadata: PartialMetadata, tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the file of a partial.

    Raises:
        Malformed: a tensor or a header that the format cannot hold.
    """
    header = metadata.to_header()
    seal = digest(encode(tensors, header))
    return encode(tensors, {**header, _SEAL: seal})


def read_partial(body: bytes) -> Partial:
    """Read what ``write_partial`` wrote.

    Raises:
        Malformed: one byte of it is another one.
    """
    file = decode(body)
    header = {name: text for name, text in file.metadata.items() if name != _SEAL}
    if file.metadata.get(_SEAL) != digest(encode(file.tensors, header)):
        raise Malformed("partial: its content is not what its digest says: it is damaged")
    return Partial(PartialMetadata.from_header(header), file.tensors)
