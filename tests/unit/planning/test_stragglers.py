from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.planning.fold import count_merged, reissue
from spotgrad.planning.leases import Sighting, Sky, is_lost
from spotgrad.planning.stragglers import COPIES_SHARE, speculate
from spotgrad.protocol.attempt import AttemptOutcome
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import EpochProgress, Head
from tests.builders import item, job_plan, names, planned_head, train
from tests.fakes.clock import START

LEASE = 120
NOW = START + timedelta(hours=2)
TYPICAL = (100.0, 200.0, 200.0, 200.0, 300.0)


def working(age: float, *, beat_ago: float = 10, outcome: AttemptOutcome | None = None) -> Sighting:
    """An attempt that began ``age`` seconds ago."""
    seen_at = NOW - timedelta(seconds=beat_ago)
    return Sighting(seen_at, outcome, timedelta(seconds=age - beat_ago))


def sky(attempts: Mapping[int, Sequence[Sighting]], durations: Sequence[float] = TYPICAL) -> Sky:
    sightings = {(1, f"train-{shard:06d}"): seen for shard, seen in attempts.items()}
    return Sky(sightings, durations, queue_depth=1, lease_seconds=LEASE, now=NOW)


def head(subtasks: int = 8, *, issued: int | None = None, out: int = 2, **changes: Any) -> Head:
    """Epoch 1: so many are issued, all but the first ``out`` of them are merged."""
    out_to = subtasks if issued is None else issued
    epoch = EpochProgress(
        epoch=1,
        subtasks=subtasks,
        issued_at=START,
        issued=Bitmap.of(range(out_to)),
        merged=Bitmap.of(range(out, out_to)),
    )
    made = planned_head(job_plan(subtasks))
    return made.model_copy(update={"state": "RUNNING", "epochs": (epoch,), "outbox": ()} | changes)


def test_the_slowest_of_two_stragglers_goes_out_a_second_time() -> None:
    after = speculate(head(), sky({0: [working(501)], 1: [working(502)]}))
    assert after.outbox == after.speculative == (train(1, 1),)
    assert (after.counts.reissued, after.counts.speculative) == (1, 1)
    assert after.reissued == ()


def test_a_straggler_takes_more_than_two_and_a_half_medians() -> None:
    assert speculate(head(), sky({0: [working(500)]})) == head()
    assert speculate(head(), sky({0: [working(500.001)]})) != head()


def test_short_subtasks_get_a_lease_before_they_are_called_slow() -> None:
    assert speculate(head(), sky({0: [working(120)]}, [1.0] * 5)) == head()
    assert speculate(head(), sky({0: [working(121)]}, [1.0] * 5)) != head()


def test_four_durations_are_no_median() -> None:
    assert speculate(head(), sky({0: [working(7000)]}, TYPICAL[:4])) == head()


@pytest.mark.parametrize(
    ("present", "at_tail"),
    [
        (head(8, issued=8, out=8), True),  # all is out
        (head(8, issued=7, out=1), True),  # three quarters are done
        (head(8, issued=7, out=2), False),
    ],
)
def test_copies_go_out_at_the_tail_of_an_epoch_alone(present: Head, *, at_tail: bool) -> None:
    assert (speculate(present, sky({0: [working(7000)]})) != present) is at_tail


def test_one_copy_of_a_subtask_is_enough() -> None:
    once = speculate(head(40), sky({0: [working(7000)]}))
    assert names(once.outbox) == names([train(1, 0)])
    assert speculate(once, sky({0: [working(7100)]})) == once


def test_what_two_workers_make_already_needs_no_copy() -> None:
    assert speculate(head(), sky({0: [working(7000), working(600)]})) == head()


@pytest.mark.parametrize(
    "attempts",
    [
        [],
        [working(7000, beat_ago=241)],
        [working(7000, outcome="returned")],
        [working(7000, beat_ago=300), working(60)],
    ],
    ids=["unbegun", "silent", "ended", "begun again"],
)
def test_what_nobody_works_at_for_long_is_no_straggler(attempts: list[Sighting]) -> None:
    assert speculate(head(), sky({0: attempts})) == head()


def test_at_most_a_tenth_is_out_twice_at_once() -> None:
    all_slow = sky({shard: [working(1000 + shard)] for shard in range(30)})
    after = speculate(head(30, out=30), all_slow)
    assert names(after.speculative) == names([train(1, 29), train(1, 28), train(1, 27)])
    assert speculate(after, all_slow) == after
    after = speculate(count_merged(after, train(1, 28)), all_slow)
    assert names(after.speculative) == names([train(1, 29), train(1, 27), train(1, 26)])


def test_copies_of_one_epoch_leave_room_for_another() -> None:
    second = head().epochs[0].model_copy(update={"epoch": 2})
    present = head(epochs=(*head().epochs, second), speculative=(train(1, 1),))
    sightings = {(epoch, "train-000000"): [working(7000)] for epoch in (1, 2)}
    after = speculate(present, Sky(sightings, TYPICAL, 1, LEASE, NOW))
    assert names(after.outbox) == names([train(2, 0)])


@pytest.mark.parametrize("state", ["PAUSED", "DEGRADED"])
def test_a_job_that_does_not_run_gets_no_copies(state: str) -> None:
    present = head(state=state)
    assert speculate(present, sky({0: [working(7000)]})) == present


def test_initialize_is_never_copied() -> None:
    plan = job_plan()
    present = planned_head(plan)
    sightings = {(0, "initialize"): [working(7000)]}
    assert speculate(present, Sky(sightings, TYPICAL, 1, LEASE, NOW)) == present


def test_a_copy_is_no_reason_to_think_the_original_lost() -> None:
    looked = sky({0: [working(7000)]})
    after = speculate(head(), looked)
    assert not is_lost(after, train(1, 0), looked)


def test_the_note_goes_with_the_subtask_and_stays_when_it_is_sent_again() -> None:
    after = speculate(head(), sky({0: [working(7000)]}))
    assert reissue(after, train(1, 0), NOW).speculative == (train(1, 0),)
    assert count_merged(after, train(1, 0)).speculative == ()


@given(
    subtasks=st.integers(1, 40),
    ages=st.lists(st.floats(10, 9000), max_size=40),
    durations=st.lists(st.floats(0, 5000), max_size=20),
)
def test_copies_are_few_and_never_of_the_fast(
    subtasks: int, ages: list[float], durations: list[float]
) -> None:
    looked = sky({shard: [working(age)] for shard, age in enumerate(ages)}, durations)
    present = head(subtasks, out=min(len(ages), subtasks))
    after = speculate(present, looked)
    assert len(after.speculative) <= max(1, COPIES_SHARE * subtasks)
    assert speculate(after, looked).speculative[: len(after.speculative)] == after.speculative
    for one in after.speculative:
        age = ages[int(one.subtask[-6:])]
        assert age > LEASE
        assert age > 2.5 * sorted(durations)[(len(durations) - 1) // 2]
    assert item(0, "initialize") not in after.outbox
