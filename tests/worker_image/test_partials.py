"""Nobody goes on from a partial that an attempt which came to nothing may have gone on from."""

import pytest

from spotgrad.protocol.head import Fault
from spotgrad.protocol.keys import ResultKey
from spotgrad.protocol.partial import read_partial
from tests.worker_image import hooks
from tests.worker_image.world import World

BATCHES = 4  # two passes over two batches of two
MISHAP = "bad0bad0"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The samples that were trained on since the fixture was last cleared."""
    samples: list[float] = []
    monkeypatch.setattr(hooks, "on_samples", samples.extend)
    return samples


def interrupt(world: World, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let a worker leave on notice after so many batches of the only subtask; then time passes."""
    left = [after]

    def on_batch(index: int) -> None:
        del index
        left[0] -= 1
        if left[0] == 0:
            world.stop.request(0)

    with monkeypatch.context() as patched:
        patched.setattr(hooks, "on_batch", on_batch)
        world.work()
    world.renew_stop()
    world.clock.advance(1)


def upload_nonsense(world: World, cause: str) -> None:
    """An attempt came to nothing, the head counts it, and another one, whose result is gone."""
    world.store.put(ResultKey("tiny-job", 1, "train-000000", MISHAP).render(), b"nonsense")
    fault = Fault(epoch=1, subtask="train-000000", **{cause: (MISHAP, "a0a0a0a0")})
    world.put_head(faults=(fault,))


def steps_saved(world: World) -> list[int]:
    keys = [key for key in world.store.snapshot() if key.startswith("partial/")]
    return [read_partial(world.store.get(key).body).metadata.position.steps for key in keys]


@pytest.mark.parametrize("cause", ["refused", "failed", "forgiven"])
def test_after_a_mishap_the_subtask_begins_anew(
    world: World, monkeypatch: pytest.MonkeyPatch, seen: list[float], cause: str
) -> None:
    """Whatever a bad machine saved, its own attempt is the last that it costs."""
    world.send("train-000000")
    interrupt(world, monkeypatch, after=2)
    upload_nonsense(world, cause)
    seen.clear()
    world.work()
    assert len(seen) == 2 * BATCHES


def test_what_was_saved_since_the_mishap_is_gone_on_from(
    world: World, monkeypatch: pytest.MonkeyPatch, seen: list[float]
) -> None:
    world.send("train-000000")
    interrupt(world, monkeypatch, after=2)
    upload_nonsense(world, "refused")
    world.clock.advance(1)
    interrupt(world, monkeypatch, after=1)
    assert steps_saved(world) == [2, 1]
    seen.clear()
    world.work()
    assert len(seen) == 2 * (BATCHES - 1)


def test_a_mishap_of_another_subtask_says_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, seen: list[float]
) -> None:
    world.send("train-000000")
    interrupt(world, monkeypatch, after=2)
    world.store.put(ResultKey("tiny-job", 1, "train-000001", MISHAP).render(), b"nonsense")
    world.put_head(faults=(Fault(epoch=1, subtask="train-000001", refused=(MISHAP,)),))
    seen.clear()
    world.work()
    assert len(seen) == 2 * (BATCHES - 2)
