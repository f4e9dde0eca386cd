import numpy as np
import pytest

from spotgrad.errors import Malformed
from spotgrad.protocol.result import Base, Trained
from spotgrad.protocol.subtask import Subtask
from tests.worker_image.world import RUN, World
from worker_image.cache import MemoryCache
from worker_image.inputs import Inputs
from worker_image.watch import Watch
from worker_image.workshop import Workshop, base_of


def subtask(name: str, epoch: int = 1) -> Subtask:
    return Subtask(job="tiny-job", run=RUN, epoch=epoch, subtask=name)


def workshop(world: World) -> Workshop:
    return Workshop(Inputs(world.store, MemoryCache()), world.code)


def watch() -> Watch:
    return Watch(lambda: None)


def test_training_begins_from_the_heads_latest_and_nothing_else_does(world: World) -> None:
    expected = Base(version=3, commit=world.model.commit, results_merged=7)
    assert base_of(world.head, subtask("train-000000")) == expected
    assert base_of(world.head, subtask("evaluate-000000")) is None
    assert base_of(world.put_head(model=None), subtask("train-000000")) is None


def test_a_job_without_code_uses_what_is_installed() -> None:
    args = {"features": 2, "classes": 2, "hidden": []}
    world = World(task="worker_image.tasks.classifier:Classifier", args=args)
    world.plan = world.plan.model_copy(update={"code": None})
    world.put_plan()
    names = {"layers.1.weight": (2, 2), "layers.1.bias": (2,)}
    arrays = {name: np.zeros(shape, np.float32) for name, shape in names.items()}
    world.model = world.put_model(3, arrays)
    product = workshop(world).produce(world.put_head(), subtask("train-000000"), watch())
    assert isinstance(product.outcome, Trained)
    assert product.tensors.keys() == names.keys()
    assert world.code.holds(None)
    world.close()


def test_what_contradicts_the_head_or_the_plan_is_malformed(world: World) -> None:
    shop = workshop(world)
    with pytest.raises(Malformed, match="there is no model version"):
        shop.produce(world.put_head(model=None), subtask("train-000000"), watch())
    world.plan = world.plan.model_copy(
        update={"spec": world.spec.model_copy(update={"evaluate": None})}
    )
    world.put_plan()
    with pytest.raises(Malformed, match="'tiny-job' does not evaluate"):
        workshop(world).produce(world.put_head(), subtask("evaluate-000000"), watch())


def test_closing_takes_the_users_code_away(world: World) -> None:
    shop = workshop(world)
    shop.produce(world.head, subtask("train-000000"), watch())
    assert not world.code.holds(None)
    shop.close()
    assert world.code.holds(None)


def test_an_epoch_may_fix_where_its_subtasks_begin(world: World) -> None:
    """The head has moved on; the record is told of the version's own count of results."""
    start, latest = world.model, world.model.model_copy(update={"version": 4, "commit": "d" * 16})
    (progress,) = world.head.epochs
    moved = world.head.model_copy(
        update={
            "epochs": (progress.model_copy(update={"start": start}),),
            "model": latest,
            "results_merged": 9,
        }
    )
    told: list[Base | None] = []
    product = workshop(world).produce(moved, subtask("train-000000"), watch(), told.append)
    own = Base(version=3, commit=start.commit, results_merged=7)
    assert isinstance(product.outcome, Trained)
    assert product.outcome.base == own
    assert told == [own]
    assert base_of(moved, subtask("train-000000")) == own.model_copy(update={"results_merged": 9})


def test_the_loss_on_held_out_samples_is_measured_where_the_job_asks(world: World) -> None:
    plain = workshop(world).produce(world.head, subtask("train-000000"), watch())
    assert isinstance(plain.outcome, Trained)
    assert plain.outcome.held_out is None
    gate = world.spec.admission.model_copy(update={"held_out": 2})
    world.plan = world.plan.model_copy(
        update={"spec": world.spec.model_copy(update={"admission": gate})}
    )
    world.put_plan()
    judged = workshop(world).produce(world.head, subtask("train-000000"), watch())
    assert isinstance(judged.outcome, Trained)
    assert judged.outcome.held_out is not None
    assert judged.outcome.held_out.count == 2
    assert judged.outcome.sums == plain.outcome.sums
    for name, tensor in plain.tensors.items():
        assert judged.tensors[name].tobytes() == tensor.tobytes()
