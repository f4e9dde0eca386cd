from collections.abc import Callable

import pytest

from spotgrad.errors import Retry, StoreUnavailable
from spotgrad.ports import ABSENT
from spotgrad.protocol.head import EvaluationProgress, Head
from spotgrad.protocol.keys import HeadKey
from spotgrad.protocol.ledger import LedgerEntry
from spotgrad.protocol.subtask import Subtask
from spotgrad.steps.commit import (
    ATTEMPTS,
    commit,
    commit_new,
    message,
    send_outbox,
    until_committed,
)
from spotgrad.steps.documents import TaggedHead, find_head
from spotgrad.steps.succession import Successor, successor
from spotgrad.steps.world import World
from tests.builders import JOB, RUN, begun, evaluation, job_plan, model_ref, train
from tests.fakes.clock import START, FakeClock
from tests.fakes.faults import Fault
from tests.fakes.ids import FakeIds
from tests.fakes.queue import FakeQueue
from tests.fakes.store import FakeStore, Write

HEAD = HeadKey(JOB).render()
FIRST = begun(job_plan())


@pytest.fixture
def store() -> FakeStore:
    made = FakeStore()
    made.put(HEAD, FIRST.to_json())
    return made


def tag(store: FakeStore) -> str:
    return store.get(HEAD).etag


def made(commit_id: str = "cc" * 8, before: Head = FIRST) -> Successor:
    return successor(before, before, commit=commit_id, now=START)


def once_before_the_head(store: FakeStore, action: Callable[[], object]) -> None:
    """Let ``action`` happen just before the head is next written."""

    def hook(write: Write) -> None:
        if (write.key, write.moment) == (HEAD, "before"):
            store.on_write = None
            action()

    store.on_write = hook


def test_the_ledger_entry_is_written_before_the_head(store: FakeStore) -> None:
    written: list[str] = []
    store.on_write = lambda write: written.append(write.key) if write.moment == "after" else None
    etag = commit(store, made(), only_if=tag(store))
    assert written == [made().head.ledger, HEAD]
    assert etag == tag(store)
    assert store.get(HEAD).body == made().head.to_json()
    assert LedgerEntry.from_json(store.get(made().head.ledger).body) == made().entry


def test_a_commit_under_an_old_tag_loses_and_leaves_an_orphan(store: FakeStore) -> None:
    old = tag(store)
    other = made("dd" * 8)
    commit(store, other, only_if=old)
    assert commit(store, made(), only_if=old) is None
    assert store.get(HEAD).body == other.head.to_json()
    assert made().head.ledger in store.snapshot()
    assert store.calls["delete"] == 0


def test_409_counts_as_412(store: FakeStore) -> None:
    store.faults.order(Fault.CONFLICT, key=HEAD)
    assert commit(store, made(), only_if=tag(store)) is None
    assert store.get(HEAD).body == FIRST.to_json()


def test_a_lost_answer_is_no_loss(store: FakeStore) -> None:
    store.faults.order(Fault.ANSWER_LOST, key=HEAD)
    etag = commit(store, made(), only_if=tag(store))
    assert etag == tag(store)
    assert store.get(HEAD).body == made().head.to_json()


def test_412_of_a_write_that_went_through_at_the_first_try_is_no_loss(store: FakeStore) -> None:
    """The SDK repeats a PUT whose answer was lost; the second one meets its own effect."""
    old = tag(store)
    once_before_the_head(store, lambda: store.put(HEAD, made().head.to_json()))
    assert commit(store, made(), only_if=old) == tag(store)


def test_an_outage_without_effect_is_retried_later(store: FakeStore) -> None:
    store.faults.order(Fault.UNAVAILABLE, operation="put", key=HEAD)
    with pytest.raises(StoreUnavailable):
        commit(store, made(), only_if=tag(store))
    assert store.get(HEAD).body == FIRST.to_json()


def test_an_outage_at_the_ledger_leaves_the_head_alone(store: FakeStore) -> None:
    store.faults.order(Fault.UNAVAILABLE, operation="put", key=made().head.ledger)
    with pytest.raises(StoreUnavailable):
        commit(store, made(), only_if=tag(store))
    assert store.get(HEAD).body == FIRST.to_json()


def test_the_first_head_is_created_only_where_there_is_none() -> None:
    store = FakeStore()
    assert commit_new(store, made()) == tag(store)
    assert commit_new(store, made("dd" * 8)) is None
    assert store.get(HEAD).body == made().head.to_json()


def test_a_first_head_whose_creation_conflicts_with_nothing_there_has_lost() -> None:
    store = FakeStore()
    store.faults.order(Fault.CONFLICT, key=HEAD)
    assert commit(store, made(), only_if=ABSENT) is None
    assert find_head(store, JOB) is None


def test_a_step_runs_until_it_is_through() -> None:
    answers = iter([False, False, True, True])
    until_committed(lambda: next(answers), JOB)
    assert list(answers) == [True]


def test_a_step_that_always_loses_is_put_off() -> None:
    answers = iter([False] * (ATTEMPTS + 1))
    with pytest.raises(Retry, match=f"job {JOB}: lost {ATTEMPTS} commits in a row"):
        until_committed(lambda: next(answers), JOB)
    assert list(answers) == [False]


# --- the outbox ---------------------------------------------------------------------------------


def a_world(store: FakeStore) -> tuple[World, FakeQueue]:
    queue = FakeQueue()
    return World(store, queue, FakeClock(), FakeIds()), queue


def with_outbox(store: FakeStore) -> TaggedHead:
    head = FIRST.model_copy(update={"outbox": (train(1, 0), train(1, 1))})
    return TaggedHead(head, store.put(HEAD, head.to_json()))


def sent(queue: FakeQueue) -> list[tuple[int, str]]:
    return [(one.epoch, one.subtask) for one in map(Subtask.from_json, queue.bodies())]


def test_an_outbox_is_sent_and_then_committed_empty(store: FakeStore) -> None:
    world, queue = a_world(store)
    before = with_outbox(store)
    after = send_outbox(world, before)
    assert sent(queue) == [(1, "train-000000"), (1, "train-000001")]
    assert (after.head.outbox, after.head.revision) == ((), 1)
    assert find_head(store, JOB) == after
    entry = LedgerEntry.from_json(store.get(after.head.ledger).body)
    assert (entry.previous, entry.server, entry.issued) == (before.head.ledger, None, ())


def test_an_empty_outbox_costs_nothing(store: FakeStore) -> None:
    world, queue = a_world(store)
    present = TaggedHead(FIRST, tag(store))
    assert send_outbox(world, present) is present
    assert (store.calls["put"], queue.calls["send"]) == (1, 0)


def test_losing_the_second_commit_is_harmless(store: FakeStore) -> None:
    world, queue = a_world(store)
    present = with_outbox(store)
    winner = made("dd" * 8, present.head)
    once_before_the_head(store, lambda: store.put(HEAD, winner.head.to_json()))
    assert send_outbox(world, present) is present
    assert len(queue.bodies()) == 2
    assert store.get(HEAD).body == winner.head.to_json()


def test_an_outbox_that_could_not_be_sent_stays(store: FakeStore) -> None:
    world, queue = a_world(store)
    present = with_outbox(store)
    queue.faults.order(Fault.UNAVAILABLE, operation="send")
    with pytest.raises(StoreUnavailable):
        send_outbox(world, present)
    assert find_head(store, JOB) == present


def test_a_message_is_a_reference_to_its_subtask() -> None:
    body = message(FIRST, train(1, 3))
    wanted = Subtask(job=JOB, run=RUN, epoch=1, subtask="train-000003", model=None)
    assert Subtask.from_json(body) == wanted
    assert len(body) < 8192


def test_an_evaluation_s_message_names_the_version_that_closed_its_epoch() -> None:
    open_ones = tuple(
        EvaluationProgress(epoch=number, subtasks=1, issued_at=START, model=model_ref(4 * number))
        for number in (1, 2)
    )
    head = FIRST.model_copy(update={"evaluations": open_ones})
    models = [Subtask.from_json(message(head, evaluation(number))).model for number in (1, 2, 3)]
    assert models == [model_ref(4), model_ref(8), None]
    assert Subtask.from_json(message(head, train(1, 0))).model is None
