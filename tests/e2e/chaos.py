"""The digits example with everything going wrong at once, and what must hold all the same."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.local.chaos.spec import ChaosSpec
from infra.local.emulator import MOTO, Server
from infra.local.home import Home
from infra.local.run import LocalRun, RunOptions, local_run
from spotgrad.directory.store import DirectoryStore
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import read_head
from spotgrad.steps.read_status import Status
from spotgrad.steps.replay import replay
from tests.e2e.runs import NAME, digits, every_subtask, merged_once

EVERYTHING = ChaosSpec(
    kill=0.15,
    notice=0.1,
    duplicate=0.2,
    delay=1,
    reorder=True,
    corrupt=0.05,
    throttle=0.1,
    aggregator_crash=0.1,
)


@dataclass
class Watcher:
    """Notes which processes there ever were."""

    run: LocalRun
    pids: set[int] = field(default_factory=set)

    def __call__(self, status: Status, notes: Sequence[str]) -> None:
        del status, notes
        self.pids |= {self.run.stack.emulator.pid, *self.run.fleet.pids.values()}


def run_and_check(
    folder: Path, chaos: ChaosSpec, epochs: int, server: Server = MOTO
) -> tuple[LocalRun, Status]:
    """Run the job, prove that nothing was lost or left behind, and return how it went."""
    home = Home(NAME, folder / "home")
    job = digits(folder / "job", epochs=epochs, workers=4)
    options = RunOptions(job, workers=4, chaos=chaos, server=server)
    with local_run(options, home) as run:
        watcher = Watcher(run)
        status = run.watch(watcher)
        run.drain()
    store = DirectoryStore(home.bucket)
    assert (status.state, status.reason) == ("SUCCEEDED", None)
    assert merged_once(store) == every_subtask(epochs)
    assert audit(store, NAME).findings == ()
    assert replay(store, NAME, read_head(store, NAME).version or 0).same
    assert run.outcome.leftover_messages == {}
    assert [pid for pid in watcher.pids if is_there(pid)] == []
    return run, status


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
