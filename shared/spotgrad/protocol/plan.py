"""``state/<job>/spec.json``: the job as it was planned. Nothing reads job.yaml afterwards."""

from typing import ClassVar

from pydantic import Field

from spotgrad.protocol.dataset import DatasetManifest
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.wire import Document, Identifier, Part, Sha256


class CodeRef(Part):
    """The user's code bundle, by content."""

    key: str
    sha256: Sha256
    size_bytes: int = Field(gt=0)


class JobPlan(Document):
    """The validated job file, the manifest and the code digest, fixed at planning time."""

    what: ClassVar[str] = "job plan"

    run: Identifier
    job_file_sha256: Sha256
    spec: JobSpec
    manifest: DatasetManifest
    code: CodeRef | None = None

    @property
    def train_shards(self) -> int:
        """Return the number of training subtasks in an epoch."""
        return len(self.manifest.splits["train"].shards)

    @property
    def evaluation_shards(self) -> int:
        """Return the number of evaluation subtasks; 0 when the job does not evaluate."""
        evaluate = self.spec.evaluate
        return 0 if evaluate is None else len(self.manifest.splits[evaluate.split].shards)
