"""Training a merged subtask again, to be compared; and being quarantined."""

from typing import Any

import numpy as np
import pytest

from spotgrad.protocol.head import Check, Opinion
from spotgrad.protocol.result import Trained
from spotgrad.protocol.subtask import ModelRef
from tests.worker_image.world import AT, World, epoch_progress, members
from worker_image.exit_codes import BadHost


def checked(world: World, model: ModelRef, *workers: str, **changes: Any) -> None:
    """Subtask 0 is merged; what these workers made of it from ``model`` is in question."""
    opinions = tuple(
        Opinion(worker=worker, attempt=f"{place:08x}", key=f"results/{place}")
        for place, worker in enumerate(workers)
    )
    check = Check(
        epoch=1,
        subtask="train-000000",
        model=model,
        opinions=opinions,
        begun_at=AT,
        sent_at=AT,
    )
    epochs = (epoch_progress(1, merged=members(0)),)
    world.put_head(**({"epochs": epochs, "checks": (check,)} | changes))


def test_a_check_gives_what_the_first_worker_gave(world: World) -> None:
    """It begins from the same version, though a newer one is there, and so does its record."""
    began = world.model
    world.send("train-000000")
    world.work()
    world.model = world.put_model(4)
    checked(world, began, "another-worker")
    world.send("train-000000")
    world.work()
    (_, one), (metadata, two) = world.results()
    outcome = metadata.outcome
    assert isinstance(outcome, Trained)
    assert (outcome.base.version, outcome.base.commit) == (3, began.commit)
    attempt = world.attempt("train-000000", number=2)
    assert attempt.base is not None
    assert attempt.base.version == 3
    for name, tensor in one.tensors.items():
        np.testing.assert_array_equal(two.tensors[name], tensor)


def test_a_check_of_a_closed_epoch_is_made_too(world: World) -> None:
    checked(world, world.model, "another-worker", epochs=(epoch_progress(2),))
    world.send("train-000000")
    world.work()
    assert len(world.results()) == 1


@pytest.mark.parametrize("workers", [("test-worker",), ("another-worker", "test-worker")])
def test_nobody_checks_their_own_work(world: World, workers: tuple[str, ...]) -> None:
    checked(world, world.model, *workers)
    world.send("train-000000")
    world.work()
    assert (world.results(), world.queue.bodies()) == ([], [])


def test_a_quarantined_worker_gives_back_what_it_holds_and_leaves(world: World) -> None:
    world.put_head(dissent={"test-worker": 2})
    world.send("train-000000")
    with pytest.raises(BadHost, match="test-worker is quarantined"):
        world.work()
    assert world.results() == []
    assert len(world.queue.receive(most=1, wait_seconds=0)) == 1
