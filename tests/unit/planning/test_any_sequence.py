"""Planning as a whole: whatever happens to a job, in whatever order, it comes to its end."""

import math
from itertools import cycle
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spotgrad.planning.fold import Mishap, count_mishap
from spotgrad.planning.issue import outstanding
from spotgrad.planning.leases import resume_all
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import open_items, same
from spotgrad.protocol.head import Head
from tests.builders import done, job_plan, model_ref, names, planned_head, whole
from tests.fakes.clock import START

SCHEDULES = st.fixed_dictionaries(
    {
        "issue": st.sampled_from(["barrier", "rolling"]),
        "max_epoch_lead": st.integers(1, 3),
        "max_in_flight": st.integers(1, 7),
    }
)

CAUSES = st.sampled_from([None, None, None, "refused", "failed"])


@settings(max_examples=40)
@given(
    schedule=SCHEDULES,
    shards=st.integers(1, 5),
    epochs=st.integers(1, 4),
    every=st.integers(1, 3),
    moves=st.lists(st.tuples(st.integers(0, 99), CAUSES), min_size=1, max_size=40),
)
def test_any_sequence_of_outcomes_leads_to_the_end(
    schedule: Any, shards: int, epochs: int, every: int, moves: Any
) -> None:
    """Each shard is merged once an epoch, whatever fails on the way, and nothing is over-issued."""
    plan = job_plan(
        shards,
        epochs=epochs,
        schedule=schedule,
        evaluate={"every_epochs": every},
        retries={"failures": 2, "refusals": 2},
    )
    head, merged, attempts, move = planned_head(plan), [], 0, cycle(moves)
    while not head.ended:
        waiting = list(open_items(head))
        assert 1 <= len(waiting) == outstanding(head) <= schedule["max_in_flight"]
        number, cause = next(move)
        one = waiting[number % len(waiting)]
        fault = next((f for f in head.faults if same(f, one)), None)
        attempts += 1
        if cause and (fault is None or len(getattr(fault, cause)) < 2):
            mishap = Mishap(cause, f"{attempts:016x}", "bad luck", "key", START)
            head = settle(count_mishap(head, plan, one, mishap), plan, START)
            assert one in head.outbox
        else:
            merged += [] if one.subtask.startswith("evaluate") else names([one])
            head = done(head, plan, one)
        head = head if head.ended else resume_all(head, START)
        assert settle(head, plan, START) == head
        assert all(later - first <= schedule["max_epoch_lead"] for first, later in leads(head))
    assert (head.state, head.dead) == ("SUCCEEDED", ())
    wanted = [(0, "initialize"), *names(o for e in range(1, epochs + 1) for o in whole(e, shards))]
    assert sorted(merged) == wanted
    assert head.final == model_ref(epochs * shards)
    closing = sorted({*range(every, epochs + 1, every), epochs})
    assert [one.epoch for one in head.evaluated] == closing
    assert math.isclose(head.metrics["accuracy"], 0.5)


def leads(head: Head) -> list[tuple[int, int]]:
    return [(head.epochs[0].epoch, progress.epoch) for progress in head.epochs]
