"""Local runs for the end-to-end tests: the digits example in a folder of its own, and its events.

Everything is real here: processes, HTTP, SQS and S3 on loopback; only the number of epochs varies.
"""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.local.run import LocalRun
from spotgrad.cli.job import Job, load_job
from spotgrad.planning.standing import number_of, open_items
from spotgrad.ports import ObjectStore
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import AttemptKey, ResultKey, attempts_prefix
from spotgrad.steps.chain import read_head, version_entries
from spotgrad.steps.commit import message
from spotgrad.steps.documents import find_head
from spotgrad.steps.read_status import Status

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
NAME = "digits-cnn"


def digits(folder: Path, *, epochs: int = 10) -> Job:
    """Copy the example into ``folder`` and return its job with that many epochs."""
    shutil.copytree(DIGITS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "job.yaml"
    text = path.read_text(encoding="utf-8")
    assert "\nepochs: 10\n" in text
    path.write_text(text.replace("\nepochs: 10\n", f"\nepochs: {epochs}\n"), encoding="utf-8")
    return load_job(path)


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
        """SIGKILL a worker whose attempt record says that it is at work, before it uploads."""
        store = self.run.stack.store
        for info in store.list(attempts_prefix(NAME)):
            attempt = Attempt.from_json(store.get(info.key).body)
            pid = self.run.fleet.pids.get(attempt.worker)
            if attempt.outcome is None and attempt.subtask.startswith("train") and pid:
                os.kill(pid, signal.SIGSTOP)  # so that it cannot upload while we look
                if self._is_mid_subtask(attempt):
                    os.kill(pid, signal.SIGKILL)
                    self.killed = attempt
                    return
                os.kill(pid, signal.SIGCONT)

    def _is_mid_subtask(self, attempt: Attempt) -> bool:
        """Return whether a stopped worker has uploaded neither its result nor its outcome."""
        it = (NAME, attempt.epoch, attempt.subtask, attempt.attempt)
        record = self.run.stack.store.get(AttemptKey(*it).render()).body
        results = self.run.stack.store.list(ResultKey(*it).render())
        return Attempt.from_json(record).outcome is None and not list(results)
