"""One local run, from a job file to a trained model: the whole pipeline on this machine.

After the job file is uploaded only events move it; this module watches, keeps the workers alive
and, however the run ends, ends every process and writes the bucket's content out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from infra.local.chaos.spec import ChaosSpec
from infra.local.counters import Counts
from infra.local.dataset import push_beside
from infra.local.delivery import Delivery, once
from infra.local.fleet import Fleet
from infra.local.home import Home
from infra.local.stack import Stack, StackOptions
from spotgrad.cli.code import pack_code
from spotgrad.cli.job import Job
from spotgrad.cli.task_check import check_task
from spotgrad.errors import NotFound, StoreUnavailable
from spotgrad.protocol.plan import JobPlan
from spotgrad.steps.change_control import change_control
from spotgrad.steps.documents import find_head, read_plan
from spotgrad.steps.read_status import Status, describe, read_status
from spotgrad.steps.receipt import find_receipt
from spotgrad.steps.submit_job import Submission, submit_job
from spotgrad.system import SystemClock, new_id

POLL_SECONDS = 0.5
DRAIN_SECONDS = 40.0
"""How long the queues may take to run dry after the job ended: what a function held as it died
comes back when its visibility timeout (30 s) is over."""

Show = Callable[[Status, Sequence[str]], None]


@dataclass(frozen=True)
class RunOptions:
    """What the command line says, and what tests add."""

    job: Job
    workers: int = 2
    dataset: Path | None = None
    resume: bool = False
    fresh: bool = False
    deliver: Delivery = once
    worker_arguments: Sequence[str] = ()
    chaos: ChaosSpec | None = None


@dataclass
class Outcome:
    """How a run ended; filled in as it ends."""

    status: Status | None = None
    leftover_messages: Mapping[str, int] = field(default_factory=dict)
    workers_replaced: int = 0
    chaos: Mapping[str, int] = field(default_factory=dict)
    """How often each fault that was asked for was injected."""
    functions: Mapping[str, Counts] = field(default_factory=dict)


class LocalRun:
    """A run in progress; ``tend`` is called by whoever watches it."""

    def __init__(self, options: RunOptions, home: Home, stack: Stack) -> None:
        self._options = options
        self._home = home
        self.stack = stack
        self._clock = SystemClock()
        self._wait = Event()
        self.fleet = Fleet(
            options.workers,
            stack.worker_environment,
            home.logs / "workers.log",
            options.worker_arguments,
        )
        if stack.chaos is not None:
            stack.chaos.arm_workers(self.fleet.signal)
        self._plan: JobPlan | None = None
        self.outcome = Outcome()

    def begin(self) -> None:
        """Put everything in place and upload the job file, or ask for what is open anew."""
        if self._options.resume:
            self._home.restore(self.stack.store)
        self.stack.start()
        self.fleet.tend()
        if self._options.resume and find_head(self.stack.store, self._options.job.spec.name):
            wish = {"want": "run", "resume": new_id()}
            change_control(
                self.stack.store,
                self._options.job.spec.name,
                lambda control: control.model_copy(update=wish),
            )
            return
        submit(self.stack, self._options)

    def watch(self, show: Show) -> Status:
        """Show the job until it ends; return its last status."""
        while True:
            status = self._look()
            if status is not None:
                show(status, self._notes())
                self.outcome.status = status
                if status.ended:
                    return status
            self._tend()
            self._wait.wait(POLL_SECONDS)

    def drain(self) -> None:
        """Let workers drop the messages that nobody needs any more, then count what is left."""
        self.outcome.chaos = self.stack.calm()
        deadline = self._clock.monotonic() + DRAIN_SECONDS
        while any(self.stack.depths().values()) and self._clock.monotonic() < deadline:
            self._tend()
            self._wait.wait(POLL_SECONDS)
        self.outcome.functions = self.stack.pump.counters.snapshot()
        self.outcome.leftover_messages = {
            name: depth for name, depth in self.stack.depths().items() if depth
        }

    def _tend(self) -> None:
        self.outcome.workers_replaced += self.fleet.tend()
        self.stack.pump.check()
        if not self.stack.emulator.alive:
            raise StoreUnavailable(f"the local AWS emulator ended; see {self._home.logs}")

    def _look(self) -> Status | None:
        """Read head and receipt alone: this run knows its workers, and a plan never changes."""
        job = self._options.job.spec.name
        present = find_head(self.stack.store, job)
        if present is None:
            return self._before_planning(job)
        if self._plan is None:
            self._plan = read_plan(self.stack.store, job)
        priced = self._plan.spec.workers.usd_per_hour is not None
        receipt = find_receipt(self.stack.store, present.head) if priced else None
        return describe(present.head, self._plan, self.fleet.pids, receipt)

    def _before_planning(self, job: str) -> Status | None:
        try:
            return read_status(self.stack.store, job, self._clock.now())
        except NotFound:  # the job file is not there yet
            return None

    def _notes(self) -> list[str]:
        counts = self.stack.pump.counters.snapshot()
        notes = [
            f"{name}: {count.errors} errors, {count.timeouts} timeouts"
            for name, count in sorted(counts.items())
            if count.errors or count.timeouts
        ]
        if self.outcome.workers_replaced:
            notes.append(f"workers replaced: {self.outcome.workers_replaced}")
        return notes


def submit(stack: Stack, options: RunOptions) -> None:
    """Push the data set, then upload code and job file: from here on there are only events."""
    job = options.job
    push_beside(stack.store, job, options.dataset)
    submit_job(stack.store, Submission(job.body, job.spec, pack_code(job)))


@contextmanager
def local_run(options: RunOptions, home: Home) -> Iterator[LocalRun]:
    """Yield a run whose processes end with the block and whose bucket is saved, come what may.

    Raises:
        InvalidJob: the task cannot be imported, or another run is in the way; nothing has begun.
    """
    check_task(options.job)
    home.prepare(resume=options.resume, fresh=options.fresh)
    with Stack(StackOptions(home.logs, options.deliver, options.chaos)) as stack:
        run = LocalRun(options, home, stack)
        try:
            run.begin()
            yield run
        finally:
            run.fleet.dismiss()
            stack.stop()
            if stack.emulator.alive:  # nothing commits any more; leaving workers may add results
                home.save(stack.store)
            run.fleet.stop()
