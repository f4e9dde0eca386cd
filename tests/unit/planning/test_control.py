from datetime import timedelta

import pytest

from spotgrad.planning.control import obey
from spotgrad.planning.fold import Mishap, count_merged, count_mishap
from spotgrad.planning.settle import settle
from spotgrad.planning.standing import open_items, why_not_open
from spotgrad.protocol.control import Control, Redrive, Want
from spotgrad.protocol.head import Head
from tests.builders import begun, dead, done, item, job_plan, names, planned_head, train, whole
from tests.fakes.clock import START

LATER = START + timedelta(days=20)
PLAN = job_plan(retries={"max_dead": 2})
TOKEN = "ab" * 8


def wished(head: Head, want: Want = "run", resume: str | None = None) -> Head:
    return obey(head, PLAN, Control(want=want, resume=resume), LATER)


def paused(head: Head | None = None) -> Head:
    return wished(head or begun(PLAN), "pause")


def test_a_job_that_is_as_the_user_wants_it_stays_equal() -> None:
    head = begun(PLAN)
    assert wished(head) is head
    assert wished(paused(head), "pause") == paused(head)
    resumed = wished(paused(head), resume=TOKEN)
    assert wished(resumed, resume=TOKEN) is resumed
    assert wished(wished(head, "cancel"), "cancel") == wished(head, "cancel")


# --- pause --------------------------------------------------------------------------------------


def test_a_paused_job_has_an_empty_outbox_and_what_is_out_stays_open() -> None:
    head = paused(settle(planned_head(PLAN), PLAN, START))
    assert (head.state, head.outbox) == ("PAUSED", ())
    assert names(open_items(head)) == [(0, "initialize")]


def test_results_under_way_are_merged_but_nothing_goes_out() -> None:
    head = done(paused(), PLAN, *whole(1))
    assert (head.state, head.epochs[0].epoch, head.outbox) == ("PAUSED", 2, ())
    assert list(open_items(head)) == []
    assert head.evaluations[0].issued.count == 0


def test_a_mishap_in_a_paused_job_is_not_sent_again_before_it_goes_on() -> None:
    mishap = Mishap("failed", "00" * 8, "boom", "key", LATER)
    head = settle(count_mishap(paused(), PLAN, train(1, 2), mishap), PLAN, LATER)
    assert (head.state, head.outbox) == ("PAUSED", ())
    assert train(1, 2) in wished(head).outbox


def test_a_paused_job_may_still_end() -> None:
    plan = job_plan(1, epochs=1, evaluate=None)
    head = obey(begun(plan), plan, Control(want="pause"), LATER)
    assert done(head, plan, train(1, 0)).state == "SUCCEEDED"


# --- resume -------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, TOKEN])
def test_resuming_sends_everything_open_and_then_what_is_next(token: str | None) -> None:
    head = wished(done(paused(), PLAN, train(1, 0)), resume=token)
    assert (head.state, head.resume_token) == ("RUNNING", token)
    assert set(names(head.outbox)) == set(names(whole(1)[1:]))
    head = wished(done(paused(), PLAN, *whole(1)), resume=token)
    assert names(head.outbox)[0] == (1, "evaluate-000000")
    assert set(names(head.outbox)[1:]) == set(names(whole(2)))


def test_a_job_without_a_version_resumes_planning() -> None:
    head = wished(paused(planned_head(PLAN)), resume=TOKEN)
    assert (head.state, names(head.outbox)) == ("PLANNING", [(0, "initialize")])


def test_a_job_that_got_its_version_while_paused_resumes_running() -> None:
    head = done(paused(planned_head(PLAN)), PLAN, item(0, "initialize"))
    assert (head.state, head.outbox) == ("PAUSED", ())
    head = wished(head)
    assert (head.state, set(names(head.outbox))) == ("RUNNING", set(names(whole(1))))


def test_a_resume_token_is_not_used_up_by_a_job_that_is_to_stay_paused() -> None:
    head = wished(paused(), "pause", TOKEN)
    assert (head, head.resume_token) == (paused(), None)
    assert set(names(wished(head, resume=TOKEN).outbox)) == set(names(whole(1)))


def test_a_new_token_sends_everything_open_of_a_running_job_too() -> None:
    head = wished(begun(PLAN), resume=TOKEN)
    assert set(names(head.outbox)) == set(names(whole(1)))
    assert head.counts.reissued == 4


# --- cancel -------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [planned_head(PLAN), begun(PLAN), paused()])
def test_a_cancelled_job_has_ended_with_its_latest_version(start: Head) -> None:
    head = wished(start, "cancel")
    assert (head.state, head.reason) == ("CANCELLED", "cancelled by its control file")
    assert (head.final, head.outbox) == (start.model, ())
    assert list(open_items(head)) == []
    assert why_not_open(head, head.run, train(1, 0)) == "its job is CANCELLED"


@pytest.mark.parametrize("want", ["run", "pause"])
def test_cancelling_is_for_good(want: Want) -> None:
    head = wished(dead(begun(PLAN), PLAN, train(1, 3)), "cancel")
    control = Control(want=want, resume=TOKEN, redrive=Redrive(token=TOKEN))
    assert obey(head, PLAN, control, LATER) is head


@pytest.mark.parametrize("want", ["run", "pause", "cancel"])
def test_a_job_that_has_ended_otherwise_stays_as_it_is(want: Want) -> None:
    plan = job_plan(1, epochs=1, evaluate=None)
    head = settle(count_merged(begun(plan), train(1, 0)), plan, START)
    assert head.state == "SUCCEEDED"
    assert obey(head, plan, Control(want=want, resume=TOKEN), LATER) is head
