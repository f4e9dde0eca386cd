"""A data set as it lies in the bucket: one manifest naming content-addressed shards by split.

Not the data: shards are safetensors files with one tensor per column, samples along axis 0.
Invariant: every split has at least one shard and no shard is empty.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from spotgrad.protocol.wire import Document, Part, Sha256

DatasetName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,62}$",
        description="1 to 63 of a-z, 0-9 and -, not starting with -",
    ),
]


class Column(Part):
    """One array of a sample; a batch holds the columns in the manifest's order."""

    name: str = Field(min_length=1)
    dtype: str
    shape: tuple[int, ...]
    """Shape of one sample, without the batch axis."""


class Shard(Part):
    """One content-addressed object: ``samples`` rows of every column."""

    key: str
    samples: int = Field(gt=0)
    size_bytes: int = Field(gt=0)
    sha256: Sha256
    label_histogram: dict[str, int] = Field(default_factory=dict)
    """Samples by label when the set has an integer column named ``y``; else empty."""


class Split(Part):
    """The shards of one split, numbered from 0 in this order."""

    shards: tuple[Shard, ...] = Field(min_length=1)

    @property
    def samples(self) -> int:
        """Return the number of samples in the split."""
        return sum(shard.samples for shard in self.shards)


class DatasetManifest(Document):
    """``datasets/<dataset>/manifest.json``: written last, when every shard is in place."""

    what: ClassVar[str] = "data set manifest"

    dataset: DatasetName
    columns: tuple[Column, ...] = Field(min_length=1)
    splits: dict[str, Split] = Field(min_length=1)
