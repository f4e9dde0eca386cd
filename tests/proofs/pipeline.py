"""The whole pipeline on a stage: one job, its queues, its functions and its workers.

Functions and workers are the product's own code; S3's events, SQS's leases and Lambda's poller are
played here, with the freedom that AWS takes: late, twice, in any order, lost. Nothing here judges
(``chronicle``) and nothing draws (``pipeline_machine``).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spotgrad.errors import LeaseLost, Retry
from spotgrad.ports import Message
from spotgrad.protocol.control import Redrive
from spotgrad.protocol.events import objects_created, s3_notification
from spotgrad.protocol.head import Head
from spotgrad.protocol.keys import ResultKey, ledger_prefix
from spotgrad.steps.aggregate_results import aggregate_results
from spotgrad.steps.change_control import change_control
from spotgrad.steps.control_job import control_job
from spotgrad.steps.documents import find_head
from spotgrad.steps.plan_job import plan_job
from spotgrad.steps.reconcile_job import Watch, active_jobs, reconcile_job
from spotgrad.steps.world import World
from tests.builders import JOB, LEASE_SECONDS, Bench
from tests.fakes.ids import FakeIds
from tests.fakes.queue import FakeQueue
from tests.fakes.store import Write
from tests.proofs.chronicle import HEAD, Chronicle
from tests.proofs.stage import Fate, Process, Request, Stage
from tests.proofs.toy_training import Curses, ToyWorkshop
from tests.worker_image.world import FakeStop
from worker_image.assignment import Options, Ports
from worker_image.cache import MemoryCache
from worker_image.inputs import Inputs
from worker_image.lease import BEATS_PER_LEASE, Lease
from worker_image.loop import Worker

FUNCTION_SECONDS: Final = 60.0
"""A function is killed by then (template.yaml)."""
EVENTS_LEASE_SECONDS: Final = 360.0
MOST_STEPS: Final = 2000
"""A process that needs more requests than this goes in circles."""
MOST_STEPS_TO_A_STRIKE: Final = 40


@dataclass
class RunningWorker:
    """A worker's process, and the signal that asks it to leave."""

    process: Process
    stop: FakeStop


class Pipeline(Bench):
    """A ``Bench`` whose hands are real workers and real functions, each a process on a stage."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.queue = self._queue(LEASE_SECONDS, 25, seed)
        self.results = self._queue(EVENTS_LEASE_SECONDS, 20, seed + 1)
        self.stage = Stage(self.store, self.queue)
        self.ids = FakeIds(0xF000)
        self.chronicle = Chronicle(self.store)
        self.store.on_write = self._on_write
        self.uploads: list[str] = []
        self.functions: list[Process] = []
        self.workers: list[RunningWorker] = []
        self.curses: Curses = {}
        self.accidents = 0
        self.lost_commits = 0
        self.damaged: set[str] = set()
        self._worlds: list[World] = []

    def upload(self, shards: int = 4, *, evaluation_shards: int = 1, **fields: Any) -> None:
        super().upload(shards, evaluation_shards=evaluation_shards, **fields)
        self.uploads.append("job")

    @property
    def found_head(self) -> Head | None:
        """The head, if the job is planned."""
        present = find_head(self.store, JOB)
        return None if present is None else present.head

    @property
    def processes(self) -> list[Process]:
        """Everything that lives, functions first."""
        self.functions = [one for one in self.functions if not one.over]
        for worker in [one for one in self.workers if one.process.over]:
            self._retire(worker)
        return [*self.functions, *(one.process for one in self.workers)]

    def start_planner(self) -> None:
        """S3's event of an upload reaches the plan function (once more)."""
        kind = self.uploads[-1]
        self.uploads = [kind, *self.uploads[:-1]]

        def work(world: World) -> None:
            plan(world) if kind == "job" else control_job(world, JOB)
            if kind in self.uploads:
                self.uploads.remove(kind)  # acknowledged; until then it comes again

        self._start(f"plan {kind}", work)

    def start_aggregator(self, most: int = 10) -> Process | None:
        """Lambda's poller takes a batch of events to an aggregator, if there are any."""
        batch = self.results.receive(most=most, wait_seconds=0)
        if not batch:
            return None
        return self._start("aggregate", lambda world: self._aggregate(world, batch))

    def start_reconciler(self) -> Process | None:
        """The minute is over; reconcile looks after the jobs that are marked as live."""
        if JOB not in active_jobs(self.store):
            return None
        watch = Watch(self.stage.store, self.stage.queue, LEASE_SECONDS)
        return self._start("reconcile", lambda world: reconcile_job(world, watch, JOB))

    def start_worker(self) -> None:
        """A worker with an empty cache."""
        stage, stop, name = self.stage, FakeStop(), f"worker-{self.ids()[-4:]}"
        inputs = Inputs(stage.store, MemoryCache())
        workshop = ToyWorkshop(stage, inputs, self.curses)
        options = Options(worker=name, lease_seconds=LEASE_SECONDS)
        ports = Ports(stage.store, stage.queue, self.clock, self.ids)
        worker = Worker(ports, inputs, workshop, stop, options)
        process = Process(stage, name, forgiving(worker.run), self.clock.monotonic())
        self.workers.append(RunningWorker(process, stop))

    def kill(self, process: Process) -> None:
        self.accidents += 1
        process.kill()

    def advance_to(self, process: Process, operation: str) -> None:
        """Let a process go on until it is about to do this, if it comes to it soon."""
        for _ in range(MOST_STEPS_TO_A_STRIKE):
            if process.over or (process.request and process.request.operation == operation):
                return
            process.resume()

    def strike_next(self, process: Process, fate: Fate, skipped: int) -> None:
        """Let a request of a process fare so: the next that can, after so many that could."""
        for _ in range(MOST_STEPS_TO_A_STRIKE):
            if process.over:
                return
            if process.request and fate in process.request.fates:
                if skipped == 0:
                    self._strike(process, process.request, fate)
                    return
                skipped -= 1
            process.resume()

    def _strike(self, process: Process, request: Request, fate: Fate) -> None:
        if fate is Fate.DAMAGED:
            self.damaged.add(request.key)
        elif fate in (Fate.UNAVAILABLE, Fate.ANSWER_LOST):
            self.accidents += 1  # it may have been an attempt's record
        process.resume(fate)

    def wait(self, seconds: float) -> None:
        """Let time pass: hearts beat, leases run out, functions reach their timeout."""
        self.accidents += sum(is_silent(worker.process) for worker in self.workers)
        beat = LEASE_SECONDS / BEATS_PER_LEASE
        while seconds > 0:
            self.clock.advance(min(beat, seconds))
            seconds -= beat
            for worker in self.workers:
                self._beat(worker.process)
            for one in self.functions:
                if not one.over and self.clock.monotonic() - one.born_at >= FUNCTION_SECONDS:
                    one.kill()

    def wish(self, **changes: Any) -> None:
        """The user changes the control file; S3 tells."""
        change_control(self.store, JOB, lambda control: control.model_copy(update=changes))
        self.uploads.append("control")

    def redrive(self) -> None:
        """``spotgrad dlq redrive``: everything that is dead is tried again."""
        changes: dict[str, Any] = {"redrive": Redrive(token=self.ids())}
        self.wish(**changes | ({"want": "run"} if self.head.ended else {}))

    def resume(self) -> None:
        self.wish(want="run", resume=self.ids())

    def run(self, process: Process) -> None:
        """Let a function end; let a worker work until it asks for a message, or ends."""
        for _ in range(MOST_STEPS):
            process.resume()
            if process.over or (process.request and process.request.operation == "receive"):
                return
        raise AssertionError(f"{process.name} goes in circles")

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        for worker in list(self.workers):
            self._retire(worker)

    def _start(self, name: str, step: Callable[[World], object]) -> Process:
        """Start a function in an environment that is warm, if one is free."""
        stage = self.stage
        free = self._worlds.pop() if self._worlds else None
        world = free or World(stage.store, stage.queue, self.clock, self.ids)

        def work() -> None:
            step(world)
            self._worlds.append(world)

        process = Process(stage, name, forgiving(work), self.clock.monotonic())
        self.functions.append(process)
        return process

    def _aggregate(self, world: World, batch: Sequence[Message]) -> None:
        created = [one for message in batch for one in objects_created(message.body)]
        aggregate_results(world, JOB, [ResultKey.parse(one.key) for one in created])
        self.stage.queue.depth()  # one more place to die at, before the poller acknowledges
        for message in batch:
            try:
                self.results.delete(message)
            except LeaseLost:
                continue

    def _retire(self, worker: RunningWorker) -> None:
        self.workers.remove(worker)
        worker.stop.close()

    def _beat(self, process: Process) -> None:
        """Make what its background threads are due to do, unless they wait for a lock it holds."""
        if process.over or process.frozen:
            return
        for one in process.rounds:
            due = one.problem is None and one.next_at <= self.clock.monotonic()
            if due and (isinstance(one, Lease) or not writes_record(process)):
                one.make()

    def _on_write(self, write: Write) -> None:
        if write.moment == "before":
            return
        if write.key.startswith("results/"):
            self.results.send([s3_notification("bucket", write.key)])
        self.lost_commits += write.key.startswith(ledger_prefix(JOB))
        if write.key == HEAD:
            self.lost_commits -= 1
            self.chronicle.head_written()

    def _queue(self, lease_seconds: float, max_receives: int, seed: int) -> FakeQueue:
        return FakeQueue(
            self.clock,
            lease_seconds=lease_seconds,
            max_receives=max_receives,
            dead_letters=FakeQueue(self.clock),
            order=random.Random(seed),  # noqa: S311 - an order, not a secret
        )


def writes_record(process: Process) -> bool:
    return process.request is not None and process.request.key.startswith("attempts/")


def is_silent(process: Process) -> bool:
    """Return whether a worker's attempt, if it makes one, shows no sign of life meanwhile."""
    return process.frozen or not process.rounds or writes_record(process)


def forgiving(work: Callable[[], None]) -> Callable[[], None]:
    """Return work that may give up: whoever started it will start it again."""

    def forgiven() -> None:
        try:
            work()
        except Retry:
            return

    return forgiven


def plan(world: World) -> None:
    plan_job(world, JOB, planning_seconds=FUNCTION_SECONDS)
