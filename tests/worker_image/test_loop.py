import errno
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from spotgrad.errors import AccessDenied, StoreUnavailable
from spotgrad.ports import Message
from spotgrad.protocol.keys import AttemptKey, HeadKey, ResultKey, SpecKey
from spotgrad.protocol.result import Base, Evaluated, Failed, Initialized, Sum, Trained
from spotgrad.protocol.tensors import checksum
from tests.fakes.faults import Fault
from tests.fakes.ids import FakeIds
from tests.fakes.queue import FakeQueue
from tests.fakes.store import Write
from tests.worker_image import hooks
from tests.worker_image.world import LEASE_SECONDS, SERVER, World, columns, epoch_progress, members
from worker_image.cache import MemoryCache
from worker_image.exit_codes import BadDisk
from worker_image.lease import HeldTooLong, Lease
from worker_image.loop import TROUBLE_PAUSES_SECONDS
from worker_image.state import Arrays

FIRST = "0000000000000001"
RESULT = ResultKey("tiny-job", 1, "train-000000", FIRST).render()
ATTEMPT = AttemptKey("tiny-job", 1, "train-000000", FIRST).render()


@pytest.fixture
def raising() -> Iterator[World]:
    made = World(task="tiny_task:Raises")
    yield made
    made.close()


def on_first_put(world: World, key: str, action: Callable[[], None]) -> None:
    """Do ``action`` right after the first write of ``key``."""
    pending = [action]

    def hook(write: Write) -> None:
        if (write.moment, write.key) == ("after", key) and pending:
            pending.pop()()

    world.store.on_write = hook


def expire(world: World) -> None:
    """Let the lease run out, and another worker receive the message."""
    world.clock.advance(LEASE_SECONDS + 1)
    assert world.queue.receive(most=1, wait_seconds=0)


# ------------------------------------------------------------------ the three kinds of work


def test_a_training_subtask_from_message_to_result(world: World) -> None:
    world.send("train-000001")
    world.work()
    ((metadata, file),) = world.results()
    outcome = metadata.outcome
    assert isinstance(outcome, Trained)
    assert outcome.base == Base(version=3, commit=world.model.commit, results_merged=7)
    assert outcome.samples == 4
    assert outcome.roles == dict.fromkeys(SERVER, "parameter")
    assert outcome.sums["loss"].count == 8
    assert (metadata.job, metadata.run) == ("tiny-job", world.head.run)
    assert (metadata.epoch, metadata.subtask) == (1, "train-000001")
    assert (metadata.attempt, metadata.worker) == (FIRST, "test-worker")
    assert file.tensors.keys() == SERVER.keys()
    assert metadata.data_crc32 == checksum(file.tensors)
    assert not np.array_equal(file.tensors["layer.weight"], SERVER["layer.weight"])
    assert world.queue.bodies() == []
    attempt = world.attempt("train-000001")
    assert attempt.outcome == "uploaded"
    assert attempt.base == outcome.base


def test_an_initialize_subtask(world: World) -> None:
    world.put_head(model=None, version=None, objects={}, epochs=(epoch_progress(0, subtasks=1),))
    world.send("initialize", 0)
    world.work()
    ((metadata, file),) = world.results()
    assert metadata.outcome == Initialized(roles=dict.fromkeys(SERVER, "parameter"))
    assert {name: array.shape for name, array in file.tensors.items()} == {
        "layer.weight": (2, 2),
        "layer.bias": (2,),
    }
    assert world.attempt("initialize", 0).base is None


def test_an_evaluate_subtask_judges_the_version_that_the_head_names(world: World) -> None:
    arrays: Arrays = {
        "layer.weight": np.array([[1, 0], [-1, 0]], np.float32),
        "layer.bias": np.zeros(2),
    }
    older = world.put_model(2, arrays)
    world.put_evaluation(older)
    world.send("evaluate-000000", 2, model=older)
    world.work()
    ((metadata, file),) = world.results()
    outcome = metadata.outcome
    assert isinstance(outcome, Evaluated)
    assert (outcome.version, outcome.commit) == (2, older.commit)
    data = columns(3, 2)
    right = int(((data["x"][:, 0] < 0) == data["y"]).sum())
    assert outcome.sums["accuracy"] == Sum(total=right, count=3)
    assert outcome.sums["loss"].count == 3
    assert file.tensors == {}


def test_a_worker_goes_from_one_subtask_to_the_next_with_its_caches_warm(world: World) -> None:
    for name in ("train-000000", "train-000001", "train-000000", "train-000001"):
        world.send(name)
    world.store.calls.clear()
    world.work()
    assert len(world.results()) == 4
    # four heads; plan, code and model once; two shards
    assert world.store.calls["get"] == 4 + 3 + 2


def test_the_same_subtask_gives_the_same_bytes_on_another_worker() -> None:
    bodies = []
    for other in (False, True):
        world = World()
        if other:  # another history: it has done something else before
            world.send("train-000001")
            world.work()
            world.ids = FakeIds()
        world.send("train-000000")
        world.work()
        bodies.append(world.store.get(RESULT).body)
        world.close()
    assert bodies[0] == bodies[1]


def test_another_base_version_is_another_seed(world: World) -> None:
    world.send("train-000000")
    world.work()
    world.model = world.put_model(4)
    world.put_head()
    world.send("train-000000")
    world.work()
    (_, one), (_, two) = world.results()
    assert not np.array_equal(one.tensors["layer.weight"], two.tensors["layer.weight"])


# ------------------------------------------------------------------ messages are hints


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "PAUSED"},
        {"state": "CANCELLED"},
        {"run": "ffffffffffffffff"},
        {"epochs": (epoch_progress(1, merged=members(0)),)},
        {"epochs": (epoch_progress(1, dead=members(0)),)},
        {"epochs": (epoch_progress(2),)},
    ],
)
def test_a_message_that_nobody_needs_is_deleted_unworked(
    world: World, changes: dict[str, Any]
) -> None:
    world.put_head(**changes)
    world.send("train-000000")
    world.work()
    assert world.queue.bodies() == []
    assert world.results() == []
    assert not [key for key in world.store.snapshot() if key.startswith("attempts/")]


def test_a_message_of_a_job_that_does_not_exist_is_deleted(world: World) -> None:
    world.store.delete(HeadKey("tiny-job").render())
    world.send("train-000000")
    world.work()
    assert world.queue.bodies() == []


@pytest.mark.parametrize(
    "body",
    ["not json", "{}", '{"schema":1,"job":"tiny-job","run":"01234567","epoch":1,"subtask":"x"}'],
)
def test_poison_is_left_for_the_dead_letter_queue(
    world: World, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.queue.send([body])
    world.send("train-000000")
    world.work()
    assert world.queue.bodies() == [body]
    assert world.queue.in_flight() == 1
    assert len(world.results()) == 1
    assert "poison message" in caplog.text


# ------------------------------------------------------------------ failures of user code


def test_an_exception_of_user_code_is_a_result(raising: World) -> None:
    raising.send("train-000000")
    raising.work()
    ((metadata, file),) = raising.results()
    assert isinstance(metadata.outcome, Failed)
    assert metadata.outcome.error == "ValueError: label 7 is not known"
    assert metadata.outcome.batch_idx == 1
    assert metadata.outcome.shard == raising.manifest.splits["train"].shards[0].key
    assert len(set(metadata.outcome.rows)) == 2
    assert 'tiny_task.py", line' in metadata.outcome.traceback
    assert file.tensors == {}
    assert raising.queue.bodies() == []
    assert raising.attempt("train-000000").outcome == "failed"


@pytest.mark.parametrize(
    ("task", "changes", "error"),
    [
        ("import sys; sys.exit(3)", {}, "SystemExit: 3"),
        ("def Tiny(: pass", {}, "SyntaxError"),
        ("x = 1", {}, "module 'tiny_task' has no callable 'Tiny'"),
        ("x = 1", {"task": "absent:Tiny"}, "there is no module 'absent'"),
        (None, {"args": {"depth": 3}}, "unexpected keyword argument 'depth'"),
        (None, {"args": {"width": 3}}, "tensor 'layer.weight': the task has shape (2, 3)"),
    ],
)
def test_a_task_that_cannot_be_built_is_a_failure_in_one_line(
    task: str | None, changes: dict[str, Any], error: str
) -> None:
    world = World(**({} if task is None else {"task_text": task}), **changes)
    world.send("train-000000")
    world.work()
    ((metadata, _),) = world.results()
    assert isinstance(metadata.outcome, Failed)
    assert error in metadata.outcome.error
    assert metadata.outcome.batch_idx is None
    world.close()


@pytest.mark.parametrize("damage", ["absent", "other bytes"])
def test_a_shard_that_cannot_be_used_is_a_failure(world: World, damage: str) -> None:
    key = world.manifest.splits["train"].shards[0].key
    if damage == "absent":
        world.store.delete(key)
    else:
        world.store.put(key, b"other bytes")
    world.send("train-000000")
    world.work()
    ((metadata, _),) = world.results()
    assert isinstance(metadata.outcome, Failed)
    assert key in metadata.outcome.error
    assert world.queue.bodies() == []


# ------------------------------------------------------------------ leases


def test_a_lost_lease_publishes_nothing_and_deletes_nothing(world: World) -> None:
    on_first_put(world, ATTEMPT, lambda: expire(world))
    world.send("train-000000")
    world.work()
    assert world.results() == []
    assert len(world.queue.bodies()) == 1
    assert world.queue.calls["delete"] == 0
    assert world.attempt("train-000000").outcome == "lease-lost"


def test_training_stops_within_one_batch_of_losing_the_lease(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []

    def on_batch(index: int) -> None:
        batches.append(index)
        expire(world)

    monkeypatch.setattr(hooks, "on_batch", on_batch)
    world.send("train-000000")
    world.work()
    assert batches == [0]
    assert world.results() == []
    assert world.attempt("train-000000").outcome == "lease-lost"


def test_a_result_uploaded_too_late_is_left_to_the_head_to_judge(world: World) -> None:
    on_first_put(world, RESULT, lambda: expire(world))
    world.send("train-000000")
    world.work()
    assert len(world.results()) == 1
    assert len(world.queue.bodies()) == 1  # somebody else's now
    assert world.attempt("train-000000").outcome == "uploaded"


def test_a_subtask_held_for_too_long_is_reported_as_a_failure(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold_on(*_: Any) -> None:
        raise HeldTooLong("held for 43,000 s")

    monkeypatch.setattr(Lease, "check", hold_on)
    world.send("train-000000")
    world.work()
    ((metadata, _),) = world.results()
    assert isinstance(metadata.outcome, Failed)
    assert metadata.outcome.error.endswith("HeldTooLong: held for 43,000 s")
    assert world.queue.bodies() == []


# ------------------------------------------------------------------ being stopped


def test_a_worker_asked_to_stop_gives_its_message_back_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []

    def on_batch(index: int) -> None:
        batches.append(index)
        world.stop.request()
        world.stop.request()  # a second signal is harmless

    monkeypatch.setattr(hooks, "on_batch", on_batch)
    world.send("train-000000")
    world.send("train-000001")
    world.work()
    assert batches == [0]
    assert world.results() == []
    assert world.attempt("train-000000").outcome == "returned"
    assert world.queue.in_flight() == 0
    assert len(world.queue.bodies()) == 2


def test_a_worker_asked_to_stop_beforehand_receives_nothing(world: World) -> None:
    world.send("train-000000")
    world.stop.request()
    world.work()
    assert world.queue.calls["receive"] == 0


def test_a_message_that_cannot_be_given_back_comes_back_by_itself(world: World) -> None:
    world.queue.faults.order(Fault.UNAVAILABLE, operation="extend")
    on_first_put(world, ATTEMPT, world.stop.request)
    world.send("train-000000")
    world.work()
    assert world.queue.in_flight() == 1
    assert world.attempt("train-000000").outcome == "returned"


def test_slow_waits_after_the_attempt_record_and_ends_with_a_signal(world: World) -> None:
    def on_wait() -> None:
        assert world.attempt("train-000000").outcome is None
        world.stop.request()

    world.stop.on_wait = on_wait
    world.send("train-000000")
    world.work(slow_seconds=7)
    assert world.stop.waits == [7]
    assert world.attempt("train-000000").outcome == "returned"


def test_slow_is_for_training_alone(world: World) -> None:
    world.put_evaluation(world.model)
    world.send("evaluate-000000", 2)
    world.work(slow_seconds=7)
    assert world.stop.waits == []
    assert len(world.results()) == 1


# ------------------------------------------------------------------ trouble


def test_throttling_is_waited_out(world: World) -> None:
    world.queue.faults.order(Fault.UNAVAILABLE, operation="receive", times=3)
    world.send("train-000000")
    world.work()
    assert world.stop.waits == [1, 2, 4]
    assert len(world.results()) == 1


def test_a_store_that_stays_away_ends_the_worker_for_another_try(world: World) -> None:
    world.queue.faults.order(Fault.UNAVAILABLE, operation="receive", times=99)
    with pytest.raises(StoreUnavailable):
        world.work()
    assert world.stop.waits == list(TROUBLE_PAUSES_SECONDS)


@pytest.mark.parametrize("key", [SpecKey("tiny-job").render(), HeadKey("tiny-job").render()])
def test_an_input_that_cannot_be_had_now_leaves_the_message(world: World, key: str) -> None:
    world.store.faults.order(Fault.UNAVAILABLE, operation="get", key=key)
    world.send("train-000000")
    world.work()
    assert world.results() == []
    assert world.queue.in_flight() == 1
    world.clock.advance(LEASE_SECONDS + 1)
    world.work()
    assert len(world.results()) == 1


def test_a_damaged_model_is_tried_again_when_the_lease_is_over(world: World) -> None:
    good = world.store.get(world.model.key).body
    world.store.put(world.model.key, good[:-1] + b"!")
    world.send("train-000000")
    world.work()
    assert world.results() == []
    assert world.attempt("train-000000").outcome == "returned"
    world.store.put(world.model.key, good)
    world.clock.advance(LEASE_SECONDS + 1)
    world.work()
    assert len(world.results()) == 1


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.ANSWER_LOST])
def test_an_upload_is_tried_again(world: World, fault: Fault) -> None:
    world.store.faults.order(fault, operation="put", key=RESULT, times=2)
    world.send("train-000000")
    world.work()
    assert world.stop.waits == [1, 2]
    assert len(world.results()) == 1
    assert world.queue.bodies() == []


def test_an_upload_that_never_works_leaves_the_message(world: World) -> None:
    world.store.faults.order(Fault.UNAVAILABLE, operation="put", key=RESULT, times=99)
    world.send("train-000000")
    world.work()
    assert world.results() == []
    assert world.queue.in_flight() == 1
    assert world.attempt("train-000000").outcome == "returned"


def test_a_worker_asked_to_stop_while_its_upload_fails_gives_the_message_back(
    world: World,
) -> None:
    world.store.faults.order(Fault.UNAVAILABLE, operation="put", key=RESULT)
    world.stop.on_wait = world.stop.request
    world.send("train-000000")
    world.work()
    assert world.results() == []
    assert world.queue.in_flight() == 0


def test_a_delete_that_fails_does_not_undo_the_result(world: World) -> None:
    world.queue.faults.order(Fault.UNAVAILABLE, operation="delete")
    world.send("train-000000")
    world.work()
    assert len(world.results()) == 1
    assert world.attempt("train-000000").outcome == "uploaded"


@pytest.mark.parametrize("error", [AccessDenied("no"), MemoryError()])
def test_what_a_person_has_to_mend_gives_the_message_back_and_ends_the_worker(
    world: World, error: Exception
) -> None:
    def hook(write: Write) -> None:
        if (write.moment, write.key) == ("before", RESULT):
            raise error

    world.store.on_write = hook
    world.send("train-000000")
    with pytest.raises(type(error)):
        world.work()
    assert world.queue.in_flight() == 0
    assert world.attempt("train-000000").outcome == "returned"


class FullCache(MemoryCache):
    """A cache on a disk that is full."""

    def put(self, sha256: str, body: bytes) -> None:  # noqa: ARG002 - the port has them
        raise BadDisk("cache: [Errno 28] No space left on device: use another machine")


def check_left_for_another_machine(world: World) -> None:
    assert world.results() == []
    assert not [key for key in world.store.snapshot() if key.startswith("partial/")]
    assert (world.queue.in_flight(), len(world.queue.bodies())) == (0, 1)
    assert world.attempt("train-000000").outcome == "returned"


def test_a_full_disk_gives_the_message_back_and_ends_the_worker(world: World) -> None:
    world.send("train-000000")
    with pytest.raises(BadDisk):
        world.work(cache=FullCache())
    check_left_for_another_machine(world)


def test_a_disk_too_full_for_the_code_is_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(world.code, "install", full)
    world.send("train-000000")
    with pytest.raises(BadDisk, match=r"code bundle jobs/tiny-job/code-\w+\.zip: "):
        world.work()
    check_left_for_another_machine(world)


def test_a_disk_that_fills_up_under_user_code_is_no_failure_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(index: int) -> None:
        if index:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hooks, "on_batch", full)
    world.send("train-000000")
    with pytest.raises(BadDisk, match="subtask=train-000000 attempt="):
        world.work()
    check_left_for_another_machine(world)


def test_any_other_error_of_the_code_bundle_is_a_failure(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(world.code, "install", broken)
    world.send("train-000000")
    world.work()
    ((metadata, _),) = world.results()
    assert isinstance(metadata.outcome, Failed)
    assert "Permission denied" in metadata.outcome.error


# ------------------------------------------------------------------ idleness


class TickingQueue(FakeQueue):
    """A queue whose receive takes as long as it was allowed to."""

    def receive(self, *, most: int, wait_seconds: float) -> Sequence[Message]:
        found = super().receive(most=most, wait_seconds=wait_seconds)
        if not found:
            self.clock.advance(wait_seconds)
        return found


@pytest.mark.parametrize(("patience", "receives"), [(0.0, 1), (0.5, 1), (1.0, 1), (5.0, 5)])
def test_a_worker_leaves_when_nothing_came_for_its_patience(
    world: World, patience: float, receives: int
) -> None:
    world.queue = TickingQueue(world.clock, lease_seconds=LEASE_SECONDS)
    world.work(until_idle_seconds=patience)
    assert world.queue.calls["receive"] == receives
    assert world.clock.monotonic() >= patience


def test_work_renews_the_patience(world: World) -> None:
    world.queue = TickingQueue(world.clock, lease_seconds=LEASE_SECONDS)
    world.send("train-000000")
    on_first_put(world, ATTEMPT, lambda: world.clock.advance(4))
    world.work(until_idle_seconds=3)
    assert world.queue.calls["receive"] == 4
    assert world.clock.monotonic() == 7


def test_without_a_patience_a_worker_stays_until_stopped(world: World) -> None:
    calls: list[float] = []

    class Patient(FakeQueue):
        def receive(self, *, most: int, wait_seconds: float) -> Sequence[Message]:
            calls.append(wait_seconds)
            if len(calls) == 50:
                world.stop.request()
            return super().receive(most=most, wait_seconds=wait_seconds)

    world.queue = Patient(world.clock)
    world.work(until_idle_seconds=None)
    assert calls == [1.0] * 50
