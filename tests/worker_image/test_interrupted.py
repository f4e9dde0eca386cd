"""Notice, partial, message back, next attempt: a whole worker on the strict fakes."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from spotgrad.protocol.keys import HeadKey, PartialKey
from spotgrad.protocol.partial import Partial, read_partial, write_partial
from spotgrad.protocol.result import Base, Trained
from spotgrad.protocol.tensors import TensorFile
from tests.fakes.faults import Fault
from tests.worker_image import hooks
from tests.worker_image.world import LEASE_SECONDS, World, columns

Each = Callable[[int], None]


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Each]]:
    """What happens in the next batches, first to last; afterwards nothing does."""
    plans: list[Each] = []

    def on_batch(index: int) -> None:
        if plans:
            plans.pop(0)(index)

    monkeypatch.setattr(hooks, "on_batch", on_batch)
    yield plans
    assert plans == []


def partials(world: World) -> list[Partial]:
    keys = [key for key in world.store.snapshot() if key.startswith("partial/")]
    return [read_partial(world.store.get(key).body) for key in keys]


def result(world: World) -> tuple[Trained, TensorFile]:
    ((metadata, file),) = world.results()
    assert isinstance(metadata.outcome, Trained)
    return metadata.outcome, file


def uninterrupted(**changes: Any) -> tuple[Trained, TensorFile]:
    world = World(**changes)
    world.send("train-000000")
    world.work()
    world.close()
    return result(world)


def interrupt(world: World, batches: list[Each], after: int) -> None:
    """Let a worker leave on notice after so many batches of the only subtask."""
    batches += [hooks.nothing] * (after - 1) + [lambda _: world.stop.request(0)]
    world.work()
    world.renew_stop()


def check_same(world: World, expected: tuple[Trained, TensorFile]) -> None:
    outcome, file = result(world)
    assert outcome == expected[0]
    for name, array in expected[1].tensors.items():
        assert file.tensors[name].tobytes() == array.tobytes()


def test_a_worker_on_notice_leaves_a_partial_and_gives_its_message_back(
    world: World, batches: list[Each]
) -> None:
    world.send("train-000000")
    interrupt(world, batches, after=3)
    (partial,) = partials(world)
    assert partial.metadata.position.model_dump() == {"passes": 1, "batches": 1, "steps": 3}
    assert partial.metadata.base.version == 3
    assert partial.metadata.code_sha256 == world.plan.code.sha256  # type: ignore[union-attr]  # it has code
    assert world.results() == []
    assert world.attempt("train-000000").outcome == "returned"
    assert (world.queue.in_flight(), len(world.queue.bodies())) == (0, 1)


@pytest.mark.parametrize("cuts", [(1,), (3,), (1, 2), (1, 1, 1)])
@pytest.mark.parametrize(
    "optimizer",
    [{"name": "sgd", "lr": 0.1, "momentum": 0.9}, {"name": "adam", "lr": 0.01}],
    ids=["momentum", "adam"],
)
def test_the_next_attempt_goes_on_and_the_result_is_the_same(
    batches: list[Each],
    monkeypatch: pytest.MonkeyPatch,
    cuts: tuple[int, ...],
    optimizer: dict[str, Any],
) -> None:
    changes: dict[str, Any] = {"local": {"passes": 2, "batch_size": 2, "optimizer": optimizer}}
    expected = uninterrupted(**changes)
    world = World(**changes)
    seen: list[float] = []
    monkeypatch.setattr(hooks, "on_samples", seen.extend)
    world.send("train-000000")
    for cut in cuts:
        interrupt(world, batches, after=cut)
    world.work()
    check_same(world, expected)
    samples = columns(4, 0)["x"][:, 0].tolist()
    assert sorted(seen) == sorted(samples * 2)  # each once a pass, however often it was cut
    assert len(partials(world)) == len(cuts)
    assert world.queue.bodies() == []
    world.close()


def test_it_goes_on_from_its_own_base_when_the_head_has_moved_on(
    world: World, batches: list[Each]
) -> None:
    expected = uninterrupted()
    world.send("train-000000")
    interrupt(world, batches, after=1)
    world.model = world.put_model(4)
    world.put_head(results_merged=9)
    world.work()
    check_same(world, expected)
    assert result(world)[0].base.version == 3
    assert world.attempt("train-000000", number=2).base == result(world)[0].base


def test_what_was_not_begun_leaves_nothing(world: World) -> None:
    world.stop.on_wait = lambda: world.stop.request(0)
    world.send("train-000000")
    world.work(slow_seconds=1)
    assert partials(world) == []
    assert world.queue.in_flight() == 0


def damage(world: World) -> None:
    (key,) = (key for key in world.store.snapshot() if key.startswith("partial/"))
    body = bytearray(world.store.get(key).body)
    body[-1] ^= 1
    world.store.put(key, bytes(body))


def rewrite(world: World, **changes: Any) -> None:
    (partial,) = partials(world)
    key = PartialKey("tiny-job", 1, "train-000000", partial.metadata.attempt).render()
    metadata = partial.metadata.model_copy(update=changes)
    world.store.put(key, write_partial(metadata, partial.tensors))


@pytest.mark.parametrize(
    ("spoil", "warning"),
    [
        (damage, "it is damaged"),
        (lambda world: rewrite(world, run="ffffffffffffffff"), None),
        (lambda world: rewrite(world, code_sha256="0" * 64), None),
        (lambda world: rewrite(world, code_sha256=None), None),
        (lambda world: rewrite(world, epoch=2), None),
        (lambda world: rewrite(world, state={"dict": []}), "does not fit"),
        (
            lambda world: rewrite(world, base=Base(version=2, commit="aaaaaaaa", results_merged=1)),
            "is gone",
        ),
    ],
)
def test_a_partial_that_cannot_be_used_is_ignored(
    world: World,
    batches: list[Each],
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[World], None],
    warning: str | None,
) -> None:
    expected = uninterrupted()
    world.send("train-000000")
    interrupt(world, batches, after=2)
    spoil(world)
    world.work()
    check_same(world, expected)
    base = world.attempt("train-000000", number=2).base
    assert base is not None
    assert base.version == 3
    if warning is not None:
        assert warning in caplog.text


def test_of_several_partials_the_furthest_counts(world: World, batches: list[Each]) -> None:
    world.send("train-000000")
    interrupt(world, batches, after=2)
    (further,) = partials(world)
    nearer = further.metadata.model_copy(
        update={
            "attempt": "ffffffff",
            "position": further.metadata.position.model_copy(update={"batches": 1}),
        }
    )
    key = PartialKey("tiny-job", 1, "train-000000", "ffffffff").render()
    world.store.put(key, write_partial(nearer, further.tensors))
    world.work()
    check_same(world, uninterrupted())


def test_a_partial_that_cannot_be_stored_costs_the_work_and_no_more(
    world: World, batches: list[Each], caplog: pytest.LogCaptureFixture
) -> None:
    key = PartialKey("tiny-job", 1, "train-000000", f"{1:016x}").render()
    world.store.faults.order(Fault.UNAVAILABLE, operation="put", key=key)
    world.send("train-000000")
    interrupt(world, batches, after=2)
    assert partials(world) == []
    assert "no partial" in caplog.text
    assert world.queue.in_flight() == 0
    world.work()
    check_same(world, uninterrupted())


def test_nothing_is_saved_once_the_lease_is_lost(world: World, batches: list[Each]) -> None:
    def stall(_: int) -> None:
        world.stop.request(0)
        world.clock.advance(LEASE_SECONDS + 1)

    batches.append(stall)
    world.send("train-000000")
    world.work()
    assert partials(world) == []
    assert world.attempt("train-000000").outcome == "lease-lost"


def test_what_fits_into_the_notice_is_finished(world: World, batches: list[Each]) -> None:
    def second(_: int) -> None:
        world.clock.advance(1)

    def notice(_: int) -> None:
        world.stop.request()
        world.stop.request()
        world.clock.advance(1)

    batches += [second, notice, second, second]
    world.send("train-000000")
    world.send("train-000001")
    world.work(notice_seconds=20)
    assert len(world.results()) == 1
    assert partials(world) == []
    assert world.queue.calls["receive"] == 1
    assert world.attempt("train-000000").outcome == "uploaded"


def test_what_turns_out_not_to_fit_is_cut_off_in_time(world: World, batches: list[Each]) -> None:
    def notice(_: int) -> None:
        world.stop.request()
        world.clock.advance(0.5)

    batches += [lambda _: world.clock.advance(0.5), notice, lambda _: world.clock.advance(9)]
    world.send("train-000000")
    world.work(notice_seconds=14)
    (partial,) = partials(world)
    assert partial.metadata.position.steps == 3
    assert world.clock.monotonic() <= 0.5 + 14 - 4


def test_a_recommendation_is_heeded_after_the_subtask(world: World, batches: list[Each]) -> None:
    batches.append(lambda _: world.stop.suggest())
    world.send("train-000000")
    world.send("train-000001")
    world.work()
    assert len(world.results()) == 1
    assert world.queue.calls["receive"] == 1
    assert len(world.queue.bodies()) == 1


def test_evaluation_is_given_back_without_a_partial(world: World, batches: list[Each]) -> None:
    world.put_evaluation(world.model)
    world.spec = world.spec.model_copy(
        update={"local": world.spec.local.model_copy(update={"batch_size": 1})}
    )
    world.plan = world.plan.model_copy(update={"spec": world.spec})
    world.put_plan()
    batches.append(lambda _: world.stop.request(0))
    world.send("evaluate-000000", 2)
    world.work()
    assert world.results() == []
    assert partials(world) == []
    assert world.attempt("evaluate-000000", 2).outcome == "returned"


def test_nothing_of_a_failed_task_is_resumed(batches: list[Each]) -> None:
    world = World(task="tiny_task:Raises")
    batches.append(lambda _: world.stop.request(0))
    world.send("train-000000")
    world.work()
    assert len(partials(world)) == 1
    world.renew_stop()
    world.work()
    ((metadata, _),) = world.results()
    assert metadata.outcome.kind == "failed"
    world.close()


def test_the_head_is_not_written_by_a_worker(world: World, batches: list[Each]) -> None:
    before = world.store.get(HeadKey("tiny-job").render()).body
    world.send("train-000000")
    interrupt(world, batches, after=1)
    assert world.store.get(HeadKey("tiny-job").render()).body == before
    written = {key.partition("/")[0] for key in world.store.snapshot()}
    assert written == {"attempts", "datasets", "jobs", "models", "partial", "state"}
    assert np.isfinite(partials(world)[0].tensors["model/layer.bias"]).all()
