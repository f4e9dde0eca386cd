"""Which subtasks are checked, what opinions come to, and how a check is kept going."""

from datetime import timedelta
from typing import Any

import pytest

from spotgrad.planning.leases import Sighting, Sky
from spotgrad.planning.quorum import ask, hear, is_sampled, tend_checks
from spotgrad.planning.standing import check_of, why_not_open
from spotgrad.protocol.head import Check, Head, Opinion
from tests.builders import begun, job_plan, model_ref, train
from tests.fakes.clock import START

ONE = train(1, 0)


def opinion(worker: str) -> Opinion:
    return Opinion(worker=worker, attempt="cafe0001", key=f"results/{worker}")


def asked(**changes: Any) -> Head:
    head = begun(job_plan()).model_copy(update={"outbox": ()} | changes)
    return ask(head, ONE, opinion("a"), model_ref(0), START)


def check(head: Head) -> Check:
    found = check_of(head, ONE)
    assert found is not None
    return found


def test_the_sample_is_about_its_share_and_the_same_every_time() -> None:
    drawn = [is_sampled(7, train(epoch, shard), 0.25) for epoch in range(20) for shard in range(50)]
    assert 200 < sum(drawn) < 300
    assert drawn == [
        is_sampled(7, train(epoch, shard), 0.25) for epoch in range(20) for shard in range(50)
    ]
    assert is_sampled(0, ONE, 1.0)
    assert any(
        is_sampled(8, train(1, n), 0.25) != is_sampled(7, train(1, n), 0.25) for n in range(50)
    )


def test_a_check_is_open_and_goes_out() -> None:
    head = asked()
    assert head.outbox == (ONE,)
    assert why_not_open(head, head.run, ONE) is None
    assert why_not_open(head, "cafecafe", ONE) == "it belongs to another run"


def test_two_that_agree_end_it() -> None:
    head, said = hear(asked(), check(asked()), opinion("b"), [True], START)
    assert (head.checks, head.dissent, said) == ((), {}, "agrees with a")


def test_where_two_disagree_a_third_is_asked() -> None:
    later = START + timedelta(seconds=9)
    head, said = hear(asked(), check(asked()), opinion("b"), [False], later)
    assert said == "disagrees with a: a third decides"
    assert [one.worker for one in check(head).opinions] == ["a", "b"]
    assert (head.outbox, check(head).sent_at) == ((ONE,), later)


@pytest.mark.parametrize(
    ("agrees", "outvoted", "said"),
    [
        ([True, False], "b", "b was outvoted, 1 of 2"),
        ([False, True], "a", "a was outvoted, 1 of 2"),
        ([True, True], None, "agrees with a and b"),
        ([False, False], None, "a and b and it all differ: nobody is judged"),
    ],
)
def test_the_third_decides(agrees: list[bool], outvoted: str | None, said: str) -> None:
    head, _ = hear(asked(), check(asked()), opinion("b"), [False], START)
    after, words = hear(head, check(head), opinion("c"), agrees, START)
    assert (after.checks, words) == ((), said)
    assert after.dissent == ({} if outvoted is None else {outvoted: 1})


def test_whoever_is_outvoted_twice_is_quarantined() -> None:
    head, _ = hear(asked(dissent={"a": 1}), check(asked()), opinion("b"), [False], START)
    assert head.quarantined == frozenset()
    after, said = hear(head, check(head), opinion("c"), [False, True], START)
    assert said == "a was outvoted, 2 of 2: it is quarantined"
    assert after.quarantined == {"a"}


def sky(seconds: float, *sightings: Sighting) -> Sky:
    now = START + timedelta(seconds=seconds)
    return Sky({(1, ONE.subtask): sightings}, (), 0, 120, now)


def test_a_check_that_nobody_makes_is_sent_again() -> None:
    head = asked().model_copy(update={"outbox": ()})
    assert tend_checks(head, sky(240)) == head
    after = tend_checks(head, sky(241))
    assert after.outbox == (ONE,)
    alive = Sighting(START + timedelta(seconds=200), None)
    assert tend_checks(head, sky(241, alive)) == head


def test_after_a_long_wait_it_is_given_up() -> None:
    assert tend_checks(asked(), sky(3601)).checks == ()
