"""What may happen to a job, as rules that hypothesis plays in any order, and what must hold after.

Every rule is something that AWS, a user or bad luck may do at any time. Each example ends calmly:
``teardown`` stops the faults and asks for the job's proper end.
"""

import sys
from collections import Counter
from typing import Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spotgrad.planning.standing import open_items
from tests.builders import names
from tests.proofs.calm_end import come_to_the_end, one_round, waiting
from tests.proofs.pipeline import Pipeline, RunningWorker
from tests.proofs.pipeline_draws import (
    LONG_WAITS,
    OF_FUNCTIONS,
    OF_POISON,
    OF_WORKERS,
    SHORT_WAITS,
    Kind,
    jobs,
    kinds,
    numbers,
    turns,
)
from tests.proofs.stage import Fate, Process
from tests.proofs.toy_training import Name

MOST_FUNCTIONS: Final = 4
MOST_WORKERS: Final = 3


class PipelineMachine(RuleBasedStateMachine):
    """One job under fire."""

    seen: ClassVar[Counter[str]] = Counter()
    """What happened in all examples together."""

    def __init__(self) -> None:
        super().__init__()
        self.pipeline: Pipeline | None = None

    @property
    def it(self) -> Pipeline:
        assert self.pipeline is not None
        return self.pipeline

    @initialize(
        seed=st.integers(0, 1000),
        job=jobs,
        shards=st.integers(2, 4),
        evaluation_shards=st.integers(1, 2),
        calm_rounds=st.sampled_from([1, 0, 1, 2, 3]),
    )
    def submit(
        self,
        seed: int,
        job: dict[str, Any],
        shards: int,
        evaluation_shards: int,
        calm_rounds: int,
    ) -> None:
        self.pipeline = Pipeline(seed)
        self.it.upload(shards, evaluation_shards=evaluation_shards, **job)
        for _ in range(calm_rounds):
            one_round(self.it)

    # Processes begin.

    @precondition(lambda self: self.it.uploads and self._room)
    @rule(twice=st.booleans())
    def deliver_an_upload(self, *, twice: bool) -> None:
        if twice:
            self.it.uploads.append(self.it.uploads[0])
        self.it.start_planner()

    @precondition(lambda self: self._room)
    @rule(kind=kinds, most=st.integers(1, 5), steps=st.integers(0, 12))
    def start_a_function(self, kind: Kind, most: int, steps: int) -> None:
        self._advance(self._begun(kind, most), steps)

    @precondition(lambda self: len(self.it.workers) < MOST_WORKERS)
    @rule()
    def start_a_worker(self) -> None:
        self.it.start_worker()

    # Processes go on.

    @precondition(lambda self: self.it.processes)
    @rule(number=numbers, steps=st.integers(1, 12))
    def step(self, number: int, steps: int) -> None:
        process = self._process(number)
        for _ in range(steps):
            process.resume()

    @precondition(lambda self: self.it.processes)
    @rule(number=numbers)
    def run(self, number: int) -> None:
        self.it.run(self._process(number))

    @rule()
    def work(self) -> None:
        self._advance_workers()

    @precondition(lambda self: self._room)
    @rule(kinds=st.tuples(kinds, kinds), most=st.integers(1, 3), turns=turns, same=st.booleans())
    def two_at_once(
        self, kinds: tuple[Kind, Kind], most: int, turns: list[bool], *, same: bool
    ) -> None:
        """Two functions that meet, perhaps over the same events; then both have ended."""
        if same:
            self.it.results.duplicate(most)
        pair = [self._begun(kind, most) for kind in kinds]
        for turn in turns:
            self._advance(pair[turn], 1)
        for process in pair:
            if process is not None:
                self.it.run(process)

    @rule(seconds=st.sampled_from(SHORT_WAITS))
    def wait_a_little(self, seconds: float) -> None:
        self.it.wait(seconds)

    @rule(seconds=st.sampled_from(LONG_WAITS))
    def wait_long(self, seconds: float) -> None:
        self.it.wait(seconds)

    @rule()
    def an_hour_passes(self) -> None:
        """For the machines of this hour it never was: none of them beats meanwhile."""
        for worker in self.it.workers:
            worker.process.frozen = True
        self.it.wait(3600.0 - self.it.clock.monotonic() % 3600.0)
        self.thaw()

    # Processes are struck.

    @precondition(lambda self: self._room)
    @rule(kind=kinds, fate=st.sampled_from(OF_FUNCTIONS), skipped=st.integers(0, 3))
    def strike_a_function(self, kind: Kind, fate: Fate, skipped: int) -> None:
        """A request fails: the first that can fail so, or one of those after it."""
        process = self._begun(kind, 5)
        if process is not None:
            self.it.strike_next(process, fate, skipped)
            self.it.run(process)

    @precondition(lambda self: self._room)
    @rule(kind=kinds, most=st.integers(1, 5), steps=st.integers(1, 12))
    def cut_a_function_off(self, kind: Kind, most: int, steps: int) -> None:
        process = self._begun(kind, most)
        if process is not None:
            self._advance(process, steps)
            self.it.kill(process)

    @rule(number=numbers, fate=st.sampled_from(OF_WORKERS), skipped=st.integers(0, 2))
    def strike_a_worker(self, number: int, fate: Fate, skipped: int) -> None:
        self.it.strike_next(self._worker(number).process, fate, skipped)

    @precondition(lambda self: self._open)
    @rule(number=numbers, fates=st.lists(st.sampled_from(OF_POISON), min_size=1, max_size=4))
    def poison(self, number: int, fates: list[Fate]) -> None:
        """The next attempts at an open subtask come to nothing, whoever makes them."""
        self.it.curses[self._open[number % len(self._open)]] = fates

    @rule(number=numbers, steps=st.integers(0, 10), trains=st.booleans())
    def kill_a_worker(self, number: int, steps: int, *, trains: bool) -> None:
        self.it.kill(self._busy(number, steps, trains=trains).process)

    @rule(number=numbers, steps=st.integers(0, 3), after=st.sampled_from([8, 8, 4, 2, 0]))
    def notice(self, number: int, steps: int, after: int) -> None:
        """A Spot notice that leaves no time: what is done is saved, the message goes back."""
        worker = self._busy(number, steps, trains=True)
        worker.stop.request(0.0)
        self._advance(worker.process, after)

    @rule(number=numbers, steps=st.integers(0, 10), trains=st.booleans())
    def freeze(self, number: int, steps: int, *, trains: bool) -> None:
        self._busy(number, steps, trains=trains).process.frozen = True

    @rule()
    def thaw(self) -> None:
        for worker in self.it.workers:
            worker.process.frozen = False

    # Messages get lost, or come twice.

    @rule(number=numbers, events=st.booleans())
    def lose_a_message(self, number: int, *, events: bool) -> None:
        (self.it.results if events else self.it.queue).lose(number)

    @rule(events=st.booleans())
    def deliver_one_twice(self, *, events: bool) -> None:
        (self.it.results if events else self.it.queue).duplicate()

    # The user wants something.

    @rule(want=st.sampled_from(["pause", "run", "run"]))
    def pause_or_resume(self, want: str) -> None:
        if want == "pause":
            self.it.wish(want="pause")
        else:
            self.it.resume()

    @precondition(lambda self: self.it.found_head and self.it.head.dead)
    @rule()
    def redrive(self) -> None:
        self.it.redrive()

    @invariant()
    def history_is_linear_and_whole(self) -> None:
        if self.pipeline is not None:
            self.it.chronicle.check()

    def teardown(self) -> None:
        if self.pipeline is None:
            return
        try:
            if sys.exc_info()[0] is None:  # else that is what has to be told
                self.seen.update(come_to_the_end(self.it))
        finally:
            self.it.close()

    @property
    def _room(self) -> bool:
        return len(self.it.processes) - len(self.it.workers) < MOST_FUNCTIONS

    @property
    def _open(self) -> list[Name]:
        head = self.it.found_head
        return [] if head is None else names(open_items(head))

    def _worker(self, number: int) -> RunningWorker:
        if not self.it.processes or not self.it.workers:
            self.it.start_worker()
        return self.it.workers[number % len(self.it.workers)]

    def _busy(self, number: int, steps: int, *, trains: bool) -> RunningWorker:
        """Return a worker that has gone so many steps on, from its first batch if it ``trains``."""
        worker = self._worker(number)
        if trains and waiting(self.it.queue):
            if worker.process.frozen:
                self.it.start_worker()
                worker = self.it.workers[-1]
            self.it.advance_to(worker.process, "train")
        self._advance(worker.process, steps)
        return worker

    def _process(self, number: int) -> Process:
        return self.it.processes[number % len(self.it.processes)]

    def _begun(self, kind: Kind, most: int) -> Process | None:
        """Start a function; where an aggregator has nothing to do, workers have worked before."""
        if kind == "reconcile":
            return self.it.start_reconciler()
        if not waiting(self.it.results):
            self._advance_workers()
        return self.it.start_aggregator(most)

    def _advance_workers(self) -> None:
        if not self.it.workers:
            self.it.start_worker()
            self.it.start_worker()
        for worker in list(self.it.workers):
            self.it.run(worker.process)

    def _advance(self, process: Process | None, steps: int) -> None:
        for _ in range(steps):
            if process is not None:
                process.resume()
