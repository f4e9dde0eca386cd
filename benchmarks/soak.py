"""A long local run with faults throughout: what is wasted, what is lost, whose memory grows.

Run ``python benchmarks/soak.py [--subtasks 2000] [--workers 4] [--chaos FAULTS]``. The task is as
small as can be, so that the pipeline is what works. Prints goodput (merged subtasks per attempt),
whether each subtask was merged exactly once, and the peak memory of each kind of process in the
first and in the last third of the run (Linux: read from /proc; what forked processes share counts
for each).
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from infra.local.chaos.spec import parse_chaos
from infra.local.home import Home
from infra.local.run import LocalRun, RunOptions, local_run
from spotgrad.cli.job import load_job
from spotgrad.directory.store import DirectoryStore
from spotgrad.ports import ObjectStore
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.keys import attempts_prefix
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import read_head, version_entries
from spotgrad.steps.read_status import Status

NAME = "soak"
SHARDS = 100
CHAOS = (
    "kill=0.03,notice=0.02,duplicate=0.1,delay=1,reorder,corrupt=0.02,throttle=0.03,"
    "aggregator-crash=0.03,seed=1"
)
JOB = """
name: soak
task: line:Line
dataset: points
epochs: {epochs}
local: {{passes: 1, batch_size: 8, optimizer: {{name: sgd, lr: 0.05}}}}
schedule: {{issue: barrier, max_in_flight: 16}}
evaluate: {{every_epochs: 5, split: validation}}
"""
TASK = """
import torch
from torch import nn

class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 1)

    def training_step(self, batch, _index):
        x, y = batch
        return (self.line(x) - y).square().mean()

    def validation_step(self, batch, _index):
        x, y = batch
        return {"loss": (self.line(x) - y).square().mean()}
"""
DATA = f"""
import numpy as np

SHARDS = {SHARDS}

def arrays():
    x = np.random.default_rng(0).normal(size=(SHARDS * 8 + 32, 4)).astype(np.float32)
    y = x @ np.array([[1], [-2], [3], [0.5]], np.float32)
    return {{"train": {{"x": x[32:], "y": y[32:]}}, "validation": {{"x": x[:32], "y": y[:32]}}}}
"""


class Scales:
    """Weighs every process of the run, again and again."""

    def __init__(self, run: LocalRun, total: int) -> None:
        self._run = run
        self._total = total
        self._peaks: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._began_at = time.monotonic()
        self._said = 0

    def __call__(self, status: Status, _notes: Sequence[str]) -> None:
        """Note the peaks of this third of the run, and say how far it is."""
        third = min(2, 3 * status.subtasks.merged // self._total)
        for kind, kilobytes in _weights(self._run):
            place = (kind, third)
            self._peaks[place] = max(self._peaks[place], kilobytes)
        if status.subtasks.merged >= self._said + 100:
            self._said = status.subtasks.merged
            seconds = time.monotonic() - self._began_at
            print(f"{seconds:7.0f} s  {self._said:5} merged", flush=True)

    def table(self) -> Iterator[str]:
        """Yield a line per kind of process."""
        yield f"{'peak memory, MB':22} {'first third':>12} {'last third':>12}"
        for kind in sorted({kind for kind, _ in self._peaks}):
            first, last = (self._peaks[kind, third] / 1024 for third in (0, 2))
            yield f"{kind:22} {first:12.0f} {last:12.0f}"


def _weights(run: LocalRun) -> Iterator[tuple[str, int]]:
    """Yield kind and resident kilobytes of this process and of each one that it started."""
    yield "this process", _resident_kilobytes(os.getpid())
    started = {"server": [run.stack.emulator.pid], "worker": list(run.fleet.pids.values())}
    for kind, pids in {**started, **run.stack.function_pids}.items():
        for pid in pids:
            with suppress(OSError):  # it ended meanwhile
                yield kind, _resident_kilobytes(pid)


def _resident_kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)


def soak(folder: Path, subtasks: int, workers: int, chaos: str) -> bool:
    """Run, print, and return whether all is well."""
    epochs = max(1, subtasks // SHARDS)
    (folder / "job.yaml").write_text(JOB.format(epochs=epochs))
    (folder / "line.py").write_text(TASK)
    (folder / "points.py").write_text(DATA)
    options = RunOptions(
        load_job(folder / "job.yaml"), workers=workers, chaos=parse_chaos(chaos) if chaos else None
    )
    home = Home(NAME, folder / "home")
    began_at = time.monotonic()
    with local_run(options, home) as run:
        scales = Scales(run, epochs * SHARDS)
        status = run.watch(scales)
        run.drain()
    seconds = time.monotonic() - began_at
    print(f"{status.state} in {seconds:.0f} s; injected: {dict(run.outcome.chaos)}")
    good = _judge(DirectoryStore(home.bucket), run, epochs)
    print(*scales.table(), sep="\n")
    return good and status.state == "SUCCEEDED"


def _judge(store: ObjectStore, run: LocalRun, epochs: int) -> bool:
    entries = version_entries(store, read_head(store, NAME))
    merged = Counter((row.epoch, row.subtask) for entry in entries for row in entry.merged)
    records = [store.get(info.key).body for info in store.list(attempts_prefix(NAME))]
    attempts = [Attempt.from_json(body) for body in records]
    trained = sum(attempt.subtask.startswith("train") for attempt in attempts)
    once = len(merged) == epochs * SHARDS and set(merged.values()) == {1}
    findings = audit(store, NAME).findings
    print(f"merged exactly once  {once} ({len(merged)} of {epochs * SHARDS})")
    print(f"goodput              {len(merged) / trained:.3f} ({len(merged)} of {trained} attempts)")
    print(f"audit                {'; '.join(findings) or 'clean'}")
    print(f"messages left        {sum(run.outcome.leftover_messages.values())}")
    return once and not findings and not run.outcome.leftover_messages


def main() -> int:
    """Read the command line, soak, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subtasks", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--chaos", default=CHAOS, help="'' for none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        good = soak(Path(folder), options.subtasks, options.workers, options.chaos)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
