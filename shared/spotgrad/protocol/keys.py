"""The grammar of all S3 keys as render/parse twins, one frozen class per kind of key.

No key is put together or taken apart anywhere else. An invalid key cannot be built: each field is
checked against the grammar on construction, so ``K.parse(key).render() == key`` always holds and
nothing that a user or a message says can climb out of its prefix.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, Self

from spotgrad.errors import Malformed
from spotgrad.protocol.key_grammar import Key, rendered

ACTIVE_PREFIX: Final = "active/"
EXPIRING_PREFIX: Final = "expiring/"
JOBS_PREFIX: Final = "jobs/"
RESULTS_PREFIX: Final = "results/"


@dataclass(frozen=True)
class SubtaskName(Key):
    """``initialize``, ``train-<shard>`` or ``evaluate-<shard>``: a subtask within its epoch."""

    kind: Literal["initialize", "train", "evaluate"]
    shard: int | None = None

    def render(self) -> str:
        """Return the name; raises ``Malformed`` when kind and shard do not fit together."""
        if (self.kind == "initialize") != (self.shard is None):
            raise Malformed(
                f"subtask {self.kind!r}, shard {self.shard!r}: only initialize has none"
            )
        shard = "" if self.shard is None else f"-{rendered('shard', self.shard)}"
        return rendered("subtask", f"{self.kind}{shard}")

    @classmethod
    def parse(cls, key: str) -> Self:
        """Read what ``render`` wrote; raises ``Malformed`` for anything else."""
        kind, _, shard = rendered("subtask", key).partition("-")
        return cls(kind=kind, shard=int(shard) if shard else None)  # type: ignore[arg-type]  # the grammar has just proved the kind


@dataclass(frozen=True)
class _OfJob(Key):
    job: str


@dataclass(frozen=True)
class JobFileKey(_OfJob):
    """The job file: its upload triggers planning."""

    form: ClassVar[str] = "jobs/{job}/job.yaml"


@dataclass(frozen=True)
class CodeKey(_OfJob):
    """The user's training code, named by its content."""

    form: ClassVar[str] = "jobs/{job}/code-{sha256}.zip"
    sha256: str


@dataclass(frozen=True)
class ControlKey(_OfJob):
    """What the user wants: run, pause or cancel, redrive, resume."""

    form: ClassVar[str] = "jobs/{job}/control.json"


@dataclass(frozen=True)
class ManifestKey(Key):
    """The data set's manifest; written last, so a data set is whole or absent."""

    form: ClassVar[str] = "datasets/{dataset}/manifest.json"
    dataset: str


@dataclass(frozen=True)
class ShardKey(Key):
    """One shard, named by its number and the first 16 digits of its SHA-256."""

    form: ClassVar[str] = "datasets/{dataset}/{shard}-{sha256_head}.safetensors"
    dataset: str
    shard: int
    sha256_head: str


@dataclass(frozen=True)
class _OfAttempt(_OfJob):
    epoch: int
    subtask: str
    attempt: str


@dataclass(frozen=True)
class ResultKey(_OfAttempt):
    """One whole result: tensors, and its metadata in the header."""

    form: ClassVar[str] = "results/{job}/{epoch}/{subtask}/{attempt}.safetensors"


@dataclass(frozen=True)
class AttemptKey(_OfAttempt):
    """Heartbeat and outcome of one attempt."""

    form: ClassVar[str] = "attempts/{job}/{epoch}/{subtask}/{attempt}.json"


@dataclass(frozen=True)
class PartialKey(_OfAttempt):
    """A resumable part of an interrupted attempt."""

    form: ClassVar[str] = "partial/{job}/{epoch}/{subtask}/{attempt}.safetensors"


@dataclass(frozen=True)
class RejectionKey(_OfAttempt):
    """Why a result was refused; the result itself stays where its worker put it."""

    form: ClassVar[str] = "rejected/{job}/{epoch}/{subtask}/{attempt}.json"


@dataclass(frozen=True)
class ModelKey(_OfJob):
    """One object of one model version; immutable."""

    form: ClassVar[str] = "models/{job}/{version}-{commit}/{name}.safetensors"
    version: int
    commit: str
    name: str = "server"


@dataclass(frozen=True)
class HeadKey(_OfJob):
    """The commit point: the only object of a job that functions change in place."""

    form: ClassVar[str] = "state/{job}/head.json"


@dataclass(frozen=True)
class SpecKey(_OfJob):
    """The validated job as planned."""

    form: ClassVar[str] = "state/{job}/spec.json"


@dataclass(frozen=True)
class RefusedKey(_OfJob):
    """Why the job file was refused."""

    form: ClassVar[str] = "state/{job}/refused.json"


@dataclass(frozen=True)
class ReceiptKey(_OfJob):
    """What the job cost."""

    form: ClassVar[str] = "state/{job}/receipt.json"


@dataclass(frozen=True)
class AnnouncedKey(_OfJob):
    """What was last told about the job."""

    form: ClassVar[str] = "state/{job}/announced.json"


@dataclass(frozen=True)
class LedgerKey(_OfJob):
    """One entry of the append-only chain."""

    form: ClassVar[str] = "state/{job}/ledger/{revision}-{commit}.json"
    revision: int
    commit: str


@dataclass(frozen=True)
class ActiveKey(_OfJob):
    """Marks a live job for ``reconcile``."""

    form: ClassVar[str] = "active/{job}"


@dataclass(frozen=True)
class ExpiringKey(_OfJob):
    """Marks an ended job whose results have not expired yet."""

    form: ClassVar[str] = "expiring/{job}"


@dataclass(frozen=True)
class FleetKey(Key):
    """When workers of one fleet were last started, and how many, for all its jobs together."""

    form: ClassVar[str] = "fleet/{name}.json"
    name: str


def _under(area: str, job: str, *path: str) -> str:
    return "/".join((area, rendered("job", job), *path, ""))


def code_prefix(job: str) -> str:
    """Return what the keys of all code bundles of a job start with."""
    return _under("jobs", job) + "code-"


def models_prefix(job: str) -> str:
    """Return what the keys of all model objects of a job start with."""
    return _under("models", job)


def ledger_prefix(job: str) -> str:
    """Return what the keys of all ledger entries of a job start with."""
    return _under("state", job, "ledger")


def rejected_prefix(job: str) -> str:
    """Return what the keys of all refused results of a job start with."""
    return _under("rejected", job)


def results_prefix(job: str, epoch: int | None = None) -> str:
    """Return what the keys of all results of a job, or of one epoch of it, start with."""
    return _under("results", job, *([] if epoch is None else [rendered("epoch", epoch)]))


def attempts_prefix(job: str, epoch: int | None = None, subtask: str | None = None) -> str:
    """Return what the keys of all attempts of a job, an epoch or one subtask start with."""
    return _under("attempts", job, *_of_subtask(epoch, subtask))


def partials_prefix(job: str, epoch: int | None = None, subtask: str | None = None) -> str:
    """Return what the keys of all partial results of a job, an epoch or one subtask start with."""
    return _under("partial", job, *_of_subtask(epoch, subtask))


def _of_subtask(epoch: int | None, subtask: str | None) -> list[str]:
    path = [("epoch", epoch), ("subtask", subtask)][: 0 if epoch is None else 1 + bool(subtask)]
    return [rendered(field, value) for field, value in path]
