from collections.abc import Sequence
from datetime import timedelta

import pytest

from spotgrad.planning.fold import reissue
from spotgrad.planning.leases import Sighting, Sky, is_lost, recover, resume_all
from spotgrad.protocol.attempt import AttemptOutcome
from spotgrad.protocol.bitmap import Bitmap
from spotgrad.protocol.head import DeadSubtask, EpochProgress, Head, Reissue
from tests.builders import item, job_plan, names, planned_head, train
from tests.fakes.clock import START

LEASE = 120
PLAN = job_plan(retries={"interruptions": 2})
ITEM = train(1, 2)


def at(seconds: float) -> Sighting:
    """An attempt without an end whose last beat the store saw then."""
    return Sighting(START + timedelta(seconds=seconds), None)


def ended(seconds: float, outcome: AttemptOutcome) -> Sighting:
    return Sighting(START + timedelta(seconds=seconds), outcome)


def sky(
    now: float,
    *sightings: Sighting,
    depth: int = 1,
    durations: Sequence[float] = (),
) -> Sky:
    return Sky(
        sightings={(1, ITEM.subtask): sightings} if sightings else {},
        durations_seconds=durations,
        queue_depth=depth,
        lease_seconds=LEASE,
        now=START + timedelta(seconds=now),
    )


def a_head(*out: int) -> Head:
    """Epoch 1, issued at START: the shards ``out`` are out (2 unless told), no others."""
    issued = Bitmap.of(out or [2])
    epoch = EpochProgress(epoch=1, subtasks=4, issued_at=START, issued=issued)
    changes = {"state": "RUNNING", "epochs": (epoch,), "outbox": ()}
    return planned_head(PLAN).model_copy(update=changes)


def test_a_beating_attempt_is_alive_for_two_leases_after_its_beat() -> None:
    assert not is_lost(a_head(), ITEM, sky(1240, at(1000), depth=0))
    assert is_lost(a_head(), ITEM, sky(1241, at(1000)))


def test_what_was_issued_later_in_the_epoch_does_not_keep_an_attempt_alive() -> None:
    head = a_head()
    issued_at = START + timedelta(seconds=1200)
    epoch = head.epochs[0].model_copy(update={"issued_at": issued_at})
    head = head.model_copy(update={"epochs": (epoch,)})
    assert is_lost(head, ITEM, sky(1241, at(1000)))


def test_the_latest_beat_of_several_attempts_counts() -> None:
    assert not is_lost(a_head(), ITEM, sky(1241, at(1000), at(1100), at(500)))


@pytest.mark.parametrize("outcome", ["uploaded", "failed"])
def test_an_ended_attempt_whose_result_never_counted_is_lost_after_two_leases(
    outcome: AttemptOutcome,
) -> None:
    assert not is_lost(a_head(), ITEM, sky(1240, ended(1000, outcome)))
    assert is_lost(a_head(), ITEM, sky(1241, ended(1000, outcome)))


@pytest.mark.parametrize("outcome", ["returned", "lease-lost"])
def test_a_message_that_was_given_back_waits_in_the_queue(outcome: AttemptOutcome) -> None:
    attempts = (at(100), ended(1000, outcome))
    assert not is_lost(a_head(), ITEM, sky(1241, *attempts))
    assert not is_lost(a_head(), ITEM, sky(1120, *attempts, depth=0))
    assert is_lost(a_head(), ITEM, sky(1121, *attempts, depth=0))
    assert is_lost(a_head(), ITEM, sky(1000 + 3601, *attempts))


def test_an_unbegun_subtask_is_lost_when_the_queue_is_empty_for_a_lease() -> None:
    assert not is_lost(a_head(), ITEM, sky(120, depth=0))
    assert is_lost(a_head(), ITEM, sky(121, depth=0))
    assert not is_lost(a_head(), ITEM, sky(121, depth=1))


def test_an_unbegun_subtask_may_wait_an_hour_or_ten_medians_in_a_full_queue() -> None:
    assert not is_lost(a_head(), ITEM, sky(3600, depth=9))
    assert is_lost(a_head(), ITEM, sky(3601, depth=9))
    slow = [600.0, 720.0, 9000.0]
    assert not is_lost(a_head(), ITEM, sky(7200, depth=9, durations=slow))
    assert is_lost(a_head(), ITEM, sky(7201, depth=9, durations=slow))


def test_after_it_was_sent_again_older_attempts_explain_nothing() -> None:
    head = reissue(a_head(), ITEM, START + timedelta(seconds=2000))
    assert not is_lost(head, ITEM, sky(2300, at(1000)))
    assert is_lost(head, ITEM, sky(2121, at(1000), depth=0))
    assert is_lost(head, ITEM, sky(2000 + 3601, at(1000)))
    assert not is_lost(head, ITEM, sky(2300, at(1000), at(2100), depth=0))
    assert is_lost(head, ITEM, sky(2341, at(1000), at(2100)))


def test_a_note_about_another_subtask_is_no_excuse() -> None:
    head = reissue(a_head(2, 3), train(1, 3), START + timedelta(seconds=2000))
    assert is_lost(head, ITEM, sky(2001, depth=0))


def test_what_is_lost_is_sent_again_and_noted() -> None:
    head = recover(a_head(1, 2), PLAN, sky(200, at(150), depth=0))
    assert names(head.outbox) == names([train(1, 1)])
    now = START + timedelta(seconds=200)
    assert head.reissued == (Reissue(epoch=1, subtask="train-000001", at=now),)
    assert head.counts.reissued == 1


def test_on_a_healthy_job_nothing_changes() -> None:
    head = a_head(1, 2)
    assert recover(head, PLAN, sky(100, at(60), depth=2)) == head


def test_too_many_vanished_workers_make_a_subtask_dead() -> None:
    vanished = [at(0), at(300), at(600)]
    head = recover(a_head(), PLAN, sky(900, *vanished[:2], ended(500, "lease-lost"), at(880)))
    assert head.dead == ()
    head = recover(a_head(), PLAN, sky(840, *vanished))
    assert head.dead == ()  # the third has been silent for two leases, not for longer
    head = recover(a_head(), PLAN, sky(841, *vanished))
    assert head.dead == (
        DeadSubtask(epoch=1, subtask=ITEM.subtask, reason="interrupted 3 times", evidence=None),
    )
    assert head.epochs[0].dead == Bitmap.of([2])
    assert head.outbox == ()


def test_a_subtask_that_kills_its_workers_is_dead_while_the_next_one_tries() -> None:
    head = recover(a_head(), PLAN, sky(900, at(0), at(300), at(600), at(880)))
    assert [one.reason for one in head.dead] == ["interrupted 3 times"]


def test_resume_sends_everything_that_is_open_once() -> None:
    later = START + timedelta(days=20)
    head = reissue(a_head(0, 1, 2), train(1, 1), START)
    head = resume_all(head, later)
    assert names(head.outbox) == names([train(1, 0), train(1, 1), train(1, 2)])
    assert {one.at for one in head.reissued} == {later}
    assert head.counts.reissued == 4
    assert names(resume_all(planned_head(PLAN), later).outbox) == names([item(0, "initialize")])
