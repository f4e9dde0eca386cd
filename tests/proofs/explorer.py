"""Every interleaving of two aggregators: depth first, each state visited once, each one judged.

The environment delivers each event twice, alone or with others, in any order and to any machine,
and once more after a crash or a retry. It may let a machine die at any point, and a head PUT go
wrong: written but answered by a timeout or by 412, or not written and answered by either.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from tests.proofs.judge import Judge, Name, Violation
from tests.proofs.machine import (
    DONE,
    REFUSED,
    TIMEOUT,
    Answers,
    Batch,
    Delete,
    End,
    Get,
    Put,
    PutHead,
    Request,
    Send,
)
from tests.proofs.states import IDLE, Machine, Numbers, State

NextOf = Callable[[int, Batch, Answers], Request | End]


@dataclass(frozen=True)
class Explored:
    """How far an exploration went, so that it cannot become trivial unseen."""

    states: int
    moves: int
    ends: int
    final_heads: frozenset[int]


class Explorer:
    """All moves of all machines and of the environment.

    Args:
        next_of: a machine's next request, from its index, batch and answers.
        judge: of every state.
        results: what must be merged in the end.
        forgetful: forget objects that nobody can name any more, which tell equal states apart. A
            broken protocol may come back to a head that was replaced: then all are kept.
    """

    def __init__(
        self, next_of: NextOf, judge: Judge, results: Iterable[Name], *, forgetful: bool = True
    ) -> None:
        self._forgetful = forgetful
        self._judge = judge
        self._results = frozenset(results)
        self._keys: Numbers[str] = Numbers()
        self._names: Numbers[Name] = Numbers()
        self._machines: Numbers[Machine | None] = Numbers()
        self._machines.of(None)
        self._first: State | None = None
        self._next_of = next_of
        self._request = lru_cache(maxsize=None)(self._request_and_made)
        self._told = lru_cache(maxsize=None)(self._number_when_told)
        self._needs = lru_cache(maxsize=None)(lambda head: self._keys.mask(judge.of(head).needs))
        self._announced = lru_cache(maxsize=None)(self._mask_of_announced)

    def start(self, head: int, deliveries: tuple[int, ...], crashes: int, faults: int) -> State:
        """Return the state in which two machines are idle and all that is open has been sent."""
        verdict = self._judge.of(head)
        return State(
            head=head,
            objects=self._needs(head),
            machines=(IDLE, IDLE),
            waiting=deliveries,
            sent=self._names.mask(verdict.open),
            crashes=crashes,
            faults=faults,
        )

    def explore(self, start: State) -> Explored:
        """Visit every state that can be reached from ``start``.

        Raises:
            Violation: with the states that led there.
        """
        self._first = start
        came_from: dict[State, State | None] = {start: None}
        todo, moves, ends, final_heads = [start], 0, 0, set()
        while todo:
            state = todo.pop()
            following = list(self._moves(state))
            self._check(state, came_from, stands_still=not following)
            moves += len(following)
            if not following:
                ends += 1
                final_heads.add(state.head)
            for reached in following:
                if reached not in came_from:
                    came_from[reached] = state
                    todo.append(reached)
        return Explored(len(came_from), moves, ends, frozenset(final_heads))

    def _check(
        self, state: State, came_from: dict[State, State | None], *, stands_still: bool
    ) -> None:
        missing = self._needs(state.head) & ~state.objects
        try:
            self._judge.check(state.head, self._keys.members(missing))
            if stands_still:
                self._judge.check_end(state.head, self._names.members(state.sent), self._results)
        except Violation as found:
            raise Violation(f"{found}\n{self._story(came_from, state)}") from None

    def _moves(self, state: State) -> Iterator[State]:
        for index, number in enumerate(state.machines):
            if number == IDLE:
                # The machines are alike at first: let the very first batch be machine 0's.
                if index == 0 or state != self._first:
                    yield from self._deliveries(state, index)
                continue
            yield from self._steps(state, index, number)
            if state.crashes:
                after = state._replace(crashes=state.crashes - 1)
                yield self._given_back(after, index, number)

    def _deliveries(self, state: State, index: int) -> Iterator[State]:
        waiting = [result for result, count in enumerate(state.waiting) if count]
        for size in range(1, len(waiting) + 1):
            for batch in combinations(waiting, size):
                number = self._machines.of(Machine(batch))
                yield state.events(batch, -1).machine(index, number)

    def _given_back(self, state: State, index: int, number: int) -> State:
        after = state.events(self._call(number).batch, +1)
        return self._without_orphans(after.machine(index, IDLE))

    def _steps(self, state: State, index: int, number: int) -> Iterator[State]:
        request, made = self._request(index, number)
        if request is End.RETURNED:
            yield self._without_orphans(state.machine(index, IDLE))
        elif request is End.GAVE_UP:
            yield self._given_back(state, index, number)
        elif isinstance(request, End):
            again = self._machines.of(Machine(self._call(number).batch))
            yield self._without_orphans(state.machine(index, again))
        else:
            for after, answer in self._served(state, request, made):
                yield after.machine(index, self._told(number, answer, made))

    def _served(self, state: State, request: Request, made: int) -> Iterator[tuple[State, int]]:
        """Yield everything that a request may come to."""
        if isinstance(request, Get):
            yield state, state.head
        elif isinstance(request, Put):
            yield state._replace(objects=state.objects | made), DONE
        elif isinstance(request, Delete):
            yield state._replace(objects=state.objects & ~self._keys.mask([request.key])), DONE
        elif isinstance(request, PutHead):
            yield from _head_put(state, request)
        else:
            yield state._replace(sent=state.sent | self._announced(state.head, request)), DONE

    def _call(self, number: int) -> Machine:
        call = self._machines.things[number]
        if call is None:
            raise LookupError(f"machine {number} is in no call")
        return call

    def _request_and_made(self, index: int, number: int) -> tuple[Request | End, int]:
        """Return what a machine does next, and the object that this writes (a mask)."""
        call = self._call(number)
        request = self._next_of(index, call.batch, call.answers)
        return request, self._keys.mask([request.key]) if isinstance(request, Put) else 0

    def _number_when_told(self, number: int, answer: int, made: int) -> int:
        call = self._call(number)
        return self._machines.of(Machine(call.batch, (*call.answers, answer), call.made | made))

    def _mask_of_announced(self, head: int, request: Send) -> int:
        return self._names.mask(self._judge.announced(head, request.bodies))

    def _without_orphans(self, state: State) -> State:
        named = self._needs(state.head)
        for number in state.machines:
            if number != IDLE:
                named |= self._call(number).made
        kept = state.objects & named
        return state._replace(objects=kept) if self._forgetful else state

    def _story(self, came_from: dict[State, State | None], end: State) -> str:
        lines: list[str] = []
        state: State | None = end
        while state is not None:
            calls = [self._machines.things[number] for number in state.machines]
            lines.append(f"head {state.head}, events {state.waiting}, machines {calls}")
            state = came_from[state]
        return "\n".join(lines[::-1])


def _head_put(state: State, request: PutHead) -> Iterator[tuple[State, int]]:
    if request.only_if not in (None, state.head):
        yield state, REFUSED
        return
    written = state._replace(head=request.head)
    yield written, DONE
    if state.faults:
        for after in (written, state):
            for answer in (TIMEOUT, REFUSED):
                yield after._replace(faults=state.faults - 1), answer
