"""A data set as it lies in the bucket: one manifest naming content-addressed shards by split.

Not the data: shards are safetensors files with one tensor per column, samples along axis 0.
Invariant: every split has at least one shard, no shard is empty, and no shard's key leads out of
the data set or names another content.
"""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from spotgrad.errors import Malformed
from spotgrad.protocol.keys import ShardKey
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

    key: str = Field(max_length=1024)  # S3's limit
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

    @model_validator(mode="after")
    def _holds_its_own_shards(self) -> Self:
        for split in self.splits.values():
            for shard in split.shards:
                self._check_key(shard)
        return self

    def _check_key(self, shard: Shard) -> None:
        try:
            said = ShardKey.texts(shard.key)
        except Malformed as error:
            raise ValueError(f"shard {error}") from error
        if said["dataset"] != self.dataset:
            raise ValueError(f"shard key {shard.key!r}: it is not of data set {self.dataset!r}")
        if not shard.sha256.startswith(said["sha256_head"]):
            raise ValueError(f"shard key {shard.key!r}: its SHA-256 is said to be {shard.sha256}")
