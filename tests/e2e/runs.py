"""Local runs for the end-to-end tests: the digits example in a folder of its own, and its events.

Everything is real here: processes, HTTP, SQS and S3 on loopback; only the number of epochs varies.
"""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.local.run import LocalRun
from spotgrad.cli.job import Job, load_job
from spotgrad.planning.standing import number_of, open_items
from spotgrad.ports import ObjectStore
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import ResultKey, attempts_prefix
from spotgrad.steps.chain import read_head, version_entries
from spotgrad.steps.commit import message
from spotgrad.steps.documents import find_head
from spotgrad.steps.read_status import Status

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
NAME = "digits-cnn"


def digits(folder: Path, *, epochs: int = 10, workers: int = 2) -> Job:
    """Copy the example into ``folder``; return its job with so many epochs and workers."""
    path = copied(DIGITS, folder)
    text = path.read_text(encoding="utf-8")
    assert "\nepochs: 10\n" in text
    text = text.replace("\nepochs: 10\n", f"\nepochs: {epochs}\n")
    assert "{max: 2}" in text
    path.write_text(text.replace("{max: 2}", f"{{max: {workers}}}"), encoding="utf-8")
    return load_job(path)


def copied(example: Path, folder: Path) -> Path:
    """Copy an example into ``folder``; return its job file."""
    shutil.copytree(example, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "job.yaml"


def merged_once(store: ObjectStore) -> Counter[tuple[int, str]]:
    """Return how often each subtask was merged, by the ledger."""
    head = read_head(store, NAME)
    return Counter(
        (row.epoch, row.subtask) for entry in version_entries(store, head) for row in entry.merged
    )


def every_subtask(epochs: int, shards: int = 16) -> Counter[tuple[int, str]]:
    """Return each training subtask of the job, once."""
    return Counter(
        (epoch, f"train-{shard:06d}") for epoch in range(1, epochs + 1) for shard in range(shards)
    )


@dataclass
class Saboteur:
    """Called with every status: kills one worker in the middle of a subtask, sends some twice."""

    run: LocalRun
    killed: Attempt | None = None
    duplicated: set[tuple[int, str]] = field(default_factory=set)

    def __call__(self, status: Status, notes: Sequence[str]) -> None:
        del notes
        if status.ended:
            return
        self.duplicate_subtasks()
        if self.killed is None and status.subtasks.merged >= 3:
            self.kill_one()

    def duplicate_subtasks(self) -> None:
        """Send every fifth subtask a second time, while it is out."""
        present = find_head(self.run.stack.store, NAME)
        if present is None:
            return
        for item in open_items(present.head):
            key = (item.epoch, item.subtask)
            if number_of(item) % 5 == 4 and key not in self.duplicated:
                self.duplicated.add(key)
                plain = WorkItem(epoch=item.epoch, subtask=item.subtask)
                self.run.stack.subtasks.send([message(present.head, plain)])

    def kill_one(self) -> None:
        """SIGKILL a worker that has recorded an attempt and uploaded nothing of it yet.

        Each is stopped first, so that what is read of it stays true while it is read.
        """
        for name, pid in self.run.fleet.pids.items():
            os.kill(pid, signal.SIGSTOP)
            self.killed = self._at_work(name)
            if self.killed is not None:
                os.kill(pid, signal.SIGKILL)
                return
            os.kill(pid, signal.SIGCONT)

    def _at_work(self, worker: str) -> Attempt | None:
        """Return the open training attempt of ``worker``, if it has one without a result."""
        for attempt in self._open_attempts():
            it = (NAME, attempt.epoch, attempt.subtask, attempt.attempt)
            if attempt.worker == worker and attempt.outcome is None:
                uploaded = list(self.run.stack.store.list(ResultKey(*it).render()))
                return None if uploaded else attempt
        return None

    def _open_attempts(self) -> Iterator[Attempt]:
        store = self.run.stack.store
        for item in open_items(read_head(store, NAME)):
            if item.subtask.startswith("train"):
                for info in store.list(attempts_prefix(NAME, item.epoch, item.subtask)):
                    yield Attempt.from_json(store.get(info.key).body)
