"""``.spotgrad/<job>``: what a local run leaves behind, and whether a new one may replace it.

The bucket's content is the whole state of a job: ``--resume`` goes on from it alone.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from spotgrad.directory.store import DirectoryStore
from spotgrad.directory.transfer import copy_all
from spotgrad.errors import InvalidJob
from spotgrad.ports import ObjectStore
from spotgrad.steps.documents import find_head

ROOT = Path(".spotgrad")


@dataclass(frozen=True)
class Home:
    """The folder of one job's local runs."""

    job: str
    root: Path = ROOT

    @property
    def folder(self) -> Path:
        """Return the folder itself."""
        return self.root / self.job

    @property
    def bucket(self) -> Path:
        """Return where the bucket's content lies between runs."""
        return self.folder / "bucket"

    @property
    def logs(self) -> Path:
        """Return where the processes of a run write their logs."""
        return self.folder / "logs"

    @property
    def model(self) -> Path:
        """Return where the trained model is put."""
        return self.folder / "model.safetensors"

    def prepare(self, *, resume: bool, fresh: bool) -> None:
        """Make way for a run: keep the bucket to resume from, or clear what a finished run left.

        Raises:
            InvalidJob: an unfinished run is in the way, or there is none to resume.
        """
        unfinished = self._unfinished()
        if resume and not unfinished:
            raise InvalidJob(f"--resume: there is no unfinished run of {self.job} in {self.folder}")
        if unfinished and not (resume or fresh):
            raise InvalidJob(
                f"{self.folder} holds an unfinished run of {self.job}:"
                " go on with --resume, or throw it away with --fresh"
            )
        if not resume and self.folder.exists():
            shutil.rmtree(self.folder)
        self.logs.mkdir(parents=True, exist_ok=True)

    def restore(self, store: ObjectStore) -> None:
        """Load the kept bucket into ``store``."""
        copy_all(DirectoryStore(self.bucket), store)

    def save(self, store: ObjectStore) -> None:
        """Write the bucket out; the last good copy stays until the new one is whole."""
        fresh = self.folder / "bucket.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        copy_all(store, DirectoryStore(fresh))
        shutil.rmtree(self.bucket, ignore_errors=True)
        fresh.replace(self.bucket)

    def _unfinished(self) -> bool:
        if not self.bucket.is_dir():
            return False
        present = find_head(DirectoryStore(self.bucket), self.job)
        return present is None or not present.head.ended
