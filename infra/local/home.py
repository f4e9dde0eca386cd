"""``.spotgrad/<job>``: what a local run leaves behind, and whether a new one may replace it.

The bucket's content is the whole state of a job: ``--resume`` goes on from it alone. Invariants:
one run at a time holds the folder, and whatever cuts a run off, the last whole bucket stays.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from spotgrad.directory.store import DirectoryStore
from spotgrad.directory.transfer import copy_all
from spotgrad.errors import InvalidJob, Malformed, NotFound
from spotgrad.ports import ObjectReader, ObjectStore
from spotgrad.steps.change_control import is_to_go_on
from spotgrad.steps.documents import find_head
from spotgrad.steps.read_status import read_status
from spotgrad.system import SystemClock

ROOT = Path(".spotgrad")
LOCK = ".lock"


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

    @property
    def kept(self) -> ObjectReader:
        """Return the last bucket that was saved, for reading; it may hold nothing."""
        return DirectoryStore(self._whole)

    @property
    def unfinished(self) -> bool:
        """Whether a bucket is kept whose job has not ended, was not planned yet, or is redriven."""
        if not self._whole.is_dir():
            return False
        now = SystemClock().now()
        try:
            return not read_status(self.kept, self.job, now).ended or self._is_redriven(now)
        except (NotFound, Malformed):  # not submitted yet; damaged, and a person has to decide
            return True

    def check(self, *, resume: bool, fresh: bool) -> None:
        """Check that a run may begin here; changes nothing.

        Raises:
            InvalidJob: an unfinished run is in the way, or there is none to resume.
        """
        unfinished = self.unfinished
        if resume and not unfinished:
            raise InvalidJob(f"--resume: {self._why_over()}")
        if unfinished and not (resume or fresh):
            raise InvalidJob(
                f"{self.folder} holds an unfinished run of {self.job}:"
                " go on with --resume, or throw it away with --fresh"
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other run out of the folder; the kernel lets go when this process ends.

        Raises:
            InvalidJob: another run is at work in it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidJob(
                    f"a local run of {self.job} is at work in {self.folder}:"
                    " wait until it ends, or interrupt it"
                ) from None
            yield

    def prepare(self, *, resume: bool, fresh: bool) -> None:
        """Make way for a run: keep the bucket to resume from, or clear what the last run left.

        Raises:
            InvalidJob: as ``check`` does.
        """
        self.check(resume=resume, fresh=fresh)
        if resume:
            self._finish_save()
        else:
            self._clear()
        self.logs.mkdir(parents=True, exist_ok=True)

    def restore(self, store: ObjectStore) -> None:
        """Load the kept bucket into ``store``."""
        copy_all(self.kept, store)

    def save(self, store: ObjectReader) -> None:
        """Write the bucket out; the last good copy stays until the new one is whole."""
        self._finish_save()
        shutil.rmtree(self._new, ignore_errors=True)
        self._new.mkdir(parents=True)
        copy_all(store, DirectoryStore(self._new))
        if self.bucket.is_dir():
            self.bucket.replace(self._old)
        self._new.replace(self.bucket)
        shutil.rmtree(self._old, ignore_errors=True)

    def _is_redriven(self, now: datetime) -> bool:
        found = find_head(self.kept, self.job)
        return found is not None and is_to_go_on(self.kept, found.head, now)

    def _why_over(self) -> str:
        """Say why there is nothing to go on with, and what to do instead."""
        if not self._whole.is_dir():
            return f"there is no unfinished run of {self.job} in {self.folder}"
        status = read_status(self.kept, self.job, SystemClock().now())
        anew = "leave --resume out to run it anew"
        if status.dead_subtasks and status.state != "CANCELLED":
            ask = f"spotgrad dlq redrive {self.job} --all --bucket {self._whole}"
            anew = f"try its {len(status.dead_subtasks)} dead again with {ask}, or {anew}"
        return f"the run of {self.job} in {self.folder} is over, {status.state}: {anew}"

    @property
    def _new(self) -> Path:
        return self.folder / "bucket.new"

    @property
    def _old(self) -> Path:
        return self.folder / "bucket.old"

    @property
    def _whole(self) -> Path:
        """Where the last whole copy is: ``save`` may have been cut off between its two renames."""
        cut_off = self._old.is_dir() and not self.bucket.is_dir()
        if not cut_off:
            return self.bucket
        return self._new if self._new.is_dir() else self._old

    def _finish_save(self) -> None:
        whole = self._whole
        if whole != self.bucket:
            whole.replace(self.bucket)
        shutil.rmtree(self._old, ignore_errors=True)

    def _clear(self) -> None:
        for path in self.folder.glob("*"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
