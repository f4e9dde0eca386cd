"""What a worker says about its one object under ``results/``, in the safetensors header.

Four outcomes, told apart by ``kind``; evaluation and failure carry no tensors. Sample counts and
norms are claims: the admission gate judges them, this module only gives them a shape.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from spotgrad.errors import Malformed
from spotgrad.protocol.job import JobName
from spotgrad.protocol.wire import Document, Finite, Identifier, Part, SubtaskText

HEADER = "spotgrad"
"""The entry of a safetensors header's ``__metadata__`` that holds our document."""

Role = Literal["parameter", "buffer", "frozen", "alias"]


class Sum(Part):
    """A metric as a sum over ``count`` samples, so that shards add up exactly weighted."""

    total: Finite
    count: Finite = Field(gt=0)


class Base(Part):
    """The version that a subtask began from, copied from that model file's header."""

    version: int = Field(ge=0)
    commit: Identifier
    results_merged: int = Field(ge=0)


class Initialized(Part):
    """The task's initial parameters: they become version 0."""

    kind: Literal["initialized"] = "initialized"
    roles: dict[str, Role]


class Trained(Part):
    """Client parameters after training on one shard."""

    kind: Literal["trained"] = "trained"
    base: Base
    samples: int = Field(strict=True)
    roles: dict[str, Role]
    sums: dict[str, Sum] = Field(default_factory=dict)
    held_out: Sum | None = None
    """The trained model's loss on the samples that the job holds out for admission."""


class Evaluated(Part):
    """Sums and counts of one evaluation shard, no tensors."""

    kind: Literal["evaluated"] = "evaluated"
    version: int = Field(ge=0)
    commit: Identifier
    sums: dict[str, Sum]


class Failed(Part):
    """The user's code raised: what, where, and at which batch of which shard."""

    kind: Literal["failed"] = "failed"
    error: str
    traceback: str
    batch_idx: int | None = None
    shard: str | None = None
    """The key of the shard."""
    rows: tuple[int, ...] = ()
    """The batch's samples, by row of the shard; of a large batch the first ones."""


Outcome = Annotated[Initialized | Trained | Evaluated | Failed, Field(discriminator="kind")]


class Header(Document):
    """A document that lives in the ``__metadata__`` of a safetensors file."""

    def to_header(self) -> dict[str, str]:
        """Return the safetensors ``__metadata__`` that carries this document."""
        return {HEADER: self.to_json().decode()}

    @classmethod
    def from_header(cls, metadata: Mapping[str, str]) -> Self:
        """Read what ``to_header`` wrote.

        Raises:
            Malformed: the file was not written by spotgrad, or its entry is wrong.
        """
        if HEADER not in metadata:
            raise Malformed(f"{cls.what}: no {HEADER!r} entry: not a file of spotgrad")
        return cls.from_json(metadata[HEADER])


class ResultMetadata(Header):
    """The header of ``results/<job>/<epoch>/<subtask>/<attempt>.safetensors``."""

    what: ClassVar[str] = "result header"

    job: JobName
    run: Identifier
    epoch: int = Field(ge=0)
    subtask: SubtaskText
    attempt: Identifier
    worker: str
    data_crc32: int | None = Field(default=None, ge=0, lt=2**32)
    """Of the tensors' data, made where they were made: a number that changed on its way may well
    be finite, and no later check would know it from a good one."""
    outcome: Outcome


class ModelMetadata(Header):
    """The header of a model file: enough to count staleness from."""

    what: ClassVar[str] = "model header"

    job: JobName
    run: Identifier
    version: int = Field(ge=0)
    commit: Identifier
    results_merged: int = Field(ge=0)
    roles: dict[str, Role]
