"""One local run, from a job file to a trained model: the whole pipeline on this machine.

After the job file is uploaded only events move it; this module watches, keeps the workers alive
and, however the run ends, ends every process and writes the bucket's content out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

from infra.local.child import is_left
from infra.local.counters import Counts
from infra.local.fleet import Fleet, paced
from infra.local.home import Home
from infra.local.interrupt import uninterrupted
from infra.local.ready import Ready, RunOptions, check_run
from infra.local.stack import Stack, StackOptions, start_of
from spotgrad.errors import NotFound, StoreUnavailable
from spotgrad.ports import ObjectStore
from spotgrad.protocol.control import Control
from spotgrad.protocol.keys import FleetKey, JobFileKey
from spotgrad.protocol.plan import JobPlan
from spotgrad.steps.change_control import change_control
from spotgrad.steps.documents import find_head, read_plan
from spotgrad.steps.read_status import Status, describe, read_status
from spotgrad.steps.receipt import find_receipt
from spotgrad.steps.submit_job import Submission, submit_job
from spotgrad.steps.tend_fleet import tend_fleet
from spotgrad.steps.world import World
from spotgrad.system import SystemClock, new_id

__all__ = ["LocalRun", "Outcome", "RunOptions", "Show", "local_run", "submit"]

POLL_SECONDS = 0.5
DRAIN_SECONDS = 40.0
"""How long the queues may take to run dry after the job ended: what a function held as it died
comes back when its visibility timeout (30 s) is over."""

Show = Callable[[Status, Sequence[str]], None]


@dataclass
class Outcome:
    """How a run ended; filled in as it ends."""

    status: Status | None = None
    leftover_messages: Mapping[str, int] = field(default_factory=dict)
    leftover_processes: int = 0
    workers_replaced: int = 0
    chaos: Mapping[str, int] = field(default_factory=dict)
    """How often each fault that was asked for was injected."""
    functions: Mapping[str, Counts] = field(default_factory=dict)


class LocalRun:
    """A run in progress; ``tend`` is called by whoever watches it."""

    def __init__(self, options: RunOptions, ready: Ready, home: Home, stack: Stack) -> None:
        self._job = options.job.spec.name
        self._resume = options.resume
        self._ready = ready
        self._home = home
        self.stack = stack
        self._clock = SystemClock()
        self._wait = Event()
        self.fleet = Fleet(
            options.workers,
            stack.worker_environment,
            home.logs / "workers.log",
            paced(options.slow_seconds),
            start=start_of(options.chaos),
        )
        self._world = World(stack.store, stack.subtasks, self._clock, new_id)
        if stack.chaos is not None:
            stack.chaos.arm_workers(self.fleet.signal)
        self._plan: JobPlan | None = None
        self._ended_before: int | None = None
        """The revision of a restored head that had ended: its redrive is yet to be taken up."""
        self.outcome = Outcome()

    def begin(self) -> None:
        """Put everything in place and upload the job file, or ask for what is open anew."""
        if self._resume:
            self._home.restore(self.stack.store)
            found = find_head(self.stack.store, self._job)
            self._ended_before = found.head.revision if found and found.head.ended else None
            self.stack.store.delete(FleetKey(self.fleet.offer.name).render())  # they are gone
        self.stack.start()
        self.fleet.start(1)  # its imports take as long as planning, and there will be work for it
        self.fleet.tend()
        if self._ready.dataset is None:
            change_control(self.stack.store, self._job, go_on)
        else:
            self._ready.dataset.push(self.stack.store)
            submit(self.stack.store, self._ready)

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
        while self.stack.busy() and self._clock.monotonic() < deadline:
            self._tend()
            self._wait.wait(POLL_SECONDS)
        self.outcome.functions = self.stack.pump.counters.snapshot()
        self.outcome.leftover_messages = {
            name: depth for name, depth in self.stack.depths().items() if depth
        }

    def end(self) -> None:
        """Stop the events, save the bucket and end the workers."""
        self.fleet.dismiss()
        try:
            self.stack.stop()
            if self.stack.emulator.alive:  # nothing commits now; leaving workers may add results
                self._home.save(self.stack.store)
        finally:
            self.fleet.stop()

    def _tend(self) -> None:
        status = self.outcome.status
        done = status.subtasks.merged + status.subtasks.dead if status else 0
        tend_fleet(self._world, [self.fleet])
        self.outcome.workers_replaced += self.fleet.tend(done)
        self.stack.pump.check()
        if not self.stack.emulator.alive:
            raise StoreUnavailable(f"the local AWS emulator ended; see {self._home.logs}")

    def _look(self) -> Status | None:
        """Read head and receipt alone: this run knows its workers, and a plan never changes."""
        present = find_head(self.stack.store, self._job)
        if present is None:
            return self._before_planning()
        if present.head.revision == self._ended_before:
            return None
        if self._plan is None:
            self._plan = read_plan(self.stack.store, self._job)
        priced = self._plan.spec.workers.usd_per_hour is not None
        receipt = find_receipt(self.stack.store, present.head) if priced else None
        return describe(present.head, self._plan, self.fleet.pids, receipt)

    def _before_planning(self) -> Status | None:
        try:
            return read_status(self.stack.store, self._job, self._clock.now())
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


def go_on(control: Control) -> Control:
    """Ask for everything open anew, paused or not; a cancelled job stays cancelled, for good."""
    want = control.want if control.want == "cancel" else "run"
    return control.model_copy(update={"want": want, "resume": new_id()})


def submit(store: ObjectStore, ready: Ready) -> None:
    """Upload code and job file: from here on there are only events."""
    job = ready.job
    if not submit_job(store, Submission(job.body, job.spec, ready.code)).changed:
        # Cut off in the middle of planning: the event of the upload was lost with its queue.
        store.put(JobFileKey(job.spec.name).render(), job.body)


@contextmanager
def local_run(options: RunOptions, home: Home) -> Iterator[LocalRun]:
    """Yield a run whose processes end with the block and whose bucket is saved, come what may.

    Raises:
        InvalidJob: something is wrong with the job, or another run is in the way; all is as it was.
    """
    ready = check_run(options, home)
    with home.held():
        home.prepare(resume=options.resume, fresh=options.fresh)
        deployment = StackOptions(home.logs, options.deliver, options.chaos, options.server)
        with Stack(deployment) as stack:
            run = LocalRun(options, ready, home, stack)
            try:
                run.begin()
                yield run
            finally:
                started = [*stack.pids, *run.fleet.started]
                with uninterrupted():
                    run.end()
        run.outcome.leftover_processes = sum(map(is_left, started))
