"""The simulator's own arithmetic, with work that only takes notes."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.reproduce.fleet import Fleet
from benchmarks.reproduce.simulator import Clockwork, Merged, Plan, simulate


@dataclass
class Notes:
    """Counts merges; a version is how many there were when a try began."""

    refuse: set[tuple[int, int]] = field(default_factory=set)
    merged: list[tuple[int, int]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    job_ends: int = 0

    def begin(self, epoch: int) -> int:
        del epoch
        return len(self.merged)

    def train(self, epoch: int, shard: int, start: int) -> tuple[int, int, int]:
        return epoch, shard, start

    def admit(self, result: tuple[int, int, int]) -> bool:
        refused = result[:2] in self.refuse
        self.refuse.discard(result[:2])
        return not refused

    def merge(
        self, epoch: int, result: tuple[int, int, int], *, ends_epoch: bool, ends_job: bool
    ) -> None:
        self.starts.append(result[2])
        self.merged.append((epoch, result[1]))
        if ends_epoch:
            self.ends.append(epoch)
        self.job_ends += ends_job


@given(
    clients=st.integers(1, 5),
    at_once=st.integers(1, 3),
    servers=st.integers(1, 3),
    shards=st.integers(1, 7),
    epochs=st.integers(1, 4),
    loss=st.sampled_from([0.0, 0.3]),
    issue=st.sampled_from(["barrier", "rolling"]),
    recovery=st.sampled_from(["timeout", "notice"]),
    seed=st.integers(0, 99),
)
def test_every_subtask_is_merged_exactly_once(
    clients: int,
    at_once: int,
    servers: int,
    shards: int,
    epochs: int,
    loss: float,
    issue: Any,
    recovery: Any,
    seed: int,
) -> None:
    notes = Notes(refuse={(1, 0)})
    fleet = Fleet(
        clients=clients,
        subtasks_per_client=at_once,
        servers=servers,
        merge_seconds=0.3,
        loss=loss,
        recovery=recovery,
    )

    trace = simulate(Plan(epochs, shards, issue), fleet, notes, seed=seed)

    every = {(epoch, shard): 1 for epoch in range(1, epochs + 1) for shard in range(shards)}
    assert Counter(notes.merged) == every
    assert notes.ends == list(range(1, epochs + 1))
    assert (notes.job_ends, len(trace.epoch_ends)) == (1, epochs)
    assert trace.tries == epochs * shards + trace.lost + trace.refused
    assert trace.refused == 1


def test_a_barrier_never_mixes_epochs_and_rolling_fills_the_tail() -> None:
    merges: dict[str, list[int]] = {}
    seconds = {}
    for issue in ("barrier", "rolling"):
        notes = Notes()
        plan = Plan(3, 5, "rolling" if issue == "rolling" else "barrier")
        seconds[issue] = simulate(plan, Fleet(clients=4, spread=0.5), notes).seconds
        merges[issue] = [epoch for epoch, _ in notes.merged]

    assert merges["barrier"] == sorted(merges["barrier"])
    assert merges["rolling"] != sorted(merges["rolling"])
    assert seconds["rolling"] < seconds["barrier"]


def test_rolling_is_at_most_one_epoch_ahead_of_the_oldest_open_one() -> None:
    seen: list[Merged] = []

    simulate(Plan(6, 4, "rolling"), Fleet(clients=3, spread=1.0), Clockwork(), seen.append, seed=3)

    left = Counter(dict.fromkeys(range(1, 7), 4))
    for merged in seen:
        oldest = min(epoch for epoch, open_ones in left.items() if open_ones)
        assert merged.epoch <= oldest + 1
        left[merged.epoch] -= 1


@pytest.mark.parametrize(("clients", "seconds"), [(1, 12.0), (2, 6.0), (5, 3.0), (12, 1.0)])
def test_without_chance_time_is_rounds_of_subtasks(clients: int, seconds: float) -> None:
    fleet = Fleet(clients=clients, spread=0.0)

    assert simulate(Plan(1, 12), fleet, Clockwork()).seconds == pytest.approx(seconds)


def test_more_subtasks_than_cores_take_longer_each() -> None:
    full = Fleet(clients=1, subtasks_per_client=8, cores=4, spread=0.0)

    assert simulate(Plan(1, 8), full, Clockwork()).seconds == pytest.approx(2.0)


def test_one_server_is_a_bottleneck_and_three_are_not() -> None:
    seconds = {}
    for servers in (1, 3):
        fleet = Fleet(clients=12, servers=servers, merge_seconds=1.0, spread=0.0)
        seconds[servers] = simulate(Plan(1, 12), fleet, Clockwork()).seconds

    assert seconds == {1: pytest.approx(13.0), 3: pytest.approx(5.0)}


def test_one_place_means_that_nothing_is_stale() -> None:
    notes = Notes()

    simulate(Plan(2, 5), Fleet(clients=1), notes)

    assert notes.starts == list(range(10))


def test_a_try_begins_from_what_is_merged_when_it_begins() -> None:
    notes = Notes()

    simulate(Plan(1, 6), Fleet(clients=3, spread=0.0), notes)

    assert notes.starts == [0, 0, 0, 3, 3, 3]


def test_the_same_seed_is_the_same_run() -> None:
    runs = [
        simulate(Plan(3, 9), Fleet(loss=0.2), Clockwork(), seed=seed).epoch_ends
        for seed in (5, 5, 6)
    ]

    assert runs[0] == runs[1] != runs[2]
