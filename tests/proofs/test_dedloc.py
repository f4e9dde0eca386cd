"""DeDLOC is large-batch training: the same parameters, however many workers there are."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from spotgrad.planning.order import shard_order
from spotgrad.steps.audit import audit
from spotgrad.steps.replay import replay
from tests.builders import JOB
from tests.proofs.collaboration import SHARDS, Collaboration, rows

TARGET, STEPS = 25, 50
EPOCHS = 23

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"name": "sgd", "lr": 0.2, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "adamw": {"name": "adamw", "lr": 0.02, "weight_decay": 0.1},
}
CREWS: dict[str, tuple[list[int], dict[int, int]]] = {
    "1": ([1], {}),
    "3": ([1, 2, 3], {1: 12}),
    "7": ([1, 1, 2, 1, 3, 1, 2], {0: 1, 3: 4, 6: 5, 4: 8}),
}


def job(optimizer: dict[str, Any], **merge: Any) -> dict[str, Any]:
    rule = {
        "rule": "dedloc",
        "target_batch_size": TARGET,
        "optimizer": optimizer,
        "compression": "fp32",
    }
    return {"epochs": EPOCHS, "seed": 3, "merge": rule | merge}


def batches() -> Iterator[list[int]]:
    """The shards of each step: in the order in which they go out, until the target is reached."""
    batch: list[int] = []
    for epoch in range(1, EPOCHS + 1):
        for number in shard_order(3, epoch, len(SHARDS)):
            batch.append(number)
            if sum(SHARDS[one] for one in batch) >= TARGET:
                yield batch
                batch = []
    if batch:
        yield batch


def single_process(optimizer: dict[str, Any]) -> tuple[dict[str, NDArray[Any]], int]:
    """Ordinary training with large batches, and how many steps it took."""
    torch.manual_seed(1)
    layers = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    options = {name: value for name, value in optimizer.items() if name != "name"}
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[optimizer["name"]]
    stepper: Any = kind(layers.parameters(), **options)
    steps = 0
    for batch in batches():
        x, y = rows(batch)
        stepper.zero_grad()
        loss: Any = nn.functional.cross_entropy(layers(x), y)
        loss.backward()
        stepper.step()
        steps += 1
    return {f"layers.{name}": one.numpy() for name, one in layers.state_dict().items()}, steps


def distance(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> float:
    assert one.keys() == other.keys()
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("optimizer", "crew"), [("sgd", "1"), ("sgd", "3"), ("sgd", "7"), ("adamw", "7")]
)
def test_any_crew_makes_the_steps_of_one_process(optimizer: str, crew: str) -> None:
    expected, steps = single_process(OPTIMIZERS[optimizer])
    assert steps >= STEPS
    paces, leaves = CREWS[crew]
    work = Collaboration(paces, leaves, job(OPTIMIZERS[optimizer]))
    made = work.run()
    head = work.head
    assert (head.state, head.version) == ("SUCCEEDED", steps)
    assert sorted(work.left) == sorted(leaves)
    assert head.counts.late == 0
    assert distance(made, expected) < 1e-5
    assert audit(work.store, JOB).findings == ()
    assert replay(work.store, JOB, steps).same


def proved(work: Collaboration) -> None:
    """Every subtask was merged once, by the rule, and every version can be rebuilt."""
    assert work.head.state == "SUCCEEDED"
    report = audit(work.store, JOB)
    assert (report.findings, report.results_merged) == ((), EPOCHS * len(SHARDS))
    assert replay(work.store, JOB, work.head.version).same


@pytest.mark.parametrize(
    ("codec", "far"), [("fp16", 2e-3), ("scaled-fp16", 2e-3), ("int8-blockwise", 5e-2)]
)
def test_a_compressed_gradient_leads_to_about_the_same_place(codec: str, far: float) -> None:
    expected, steps = single_process(OPTIMIZERS["sgd"])
    work = Collaboration([1, 2], {}, job(OPTIMIZERS["sgd"], compression=codec))
    made = work.run()
    proved(work)
    assert work.head.version == steps
    assert 0 < distance(made, expected) < far


def test_where_late_gradients_count_nobody_waits_and_what_is_too_late_is_computed_again() -> None:
    how = job(OPTIMIZERS["sgd"], late="next-step") | {"schedule": {"issue": "rolling"}}
    work = Collaboration([2, 3, 4], {1: 10}, how)
    work.run()
    proved(work)
    assert work.head.counts.late > 0
    assert work.head.dead == ()


def test_a_time_slice_fills_batches_with_parts_of_shards() -> None:
    """After two batches of three samples, four seconds, a worker sends what it has."""
    how = job(OPTIMIZERS["sgd"]) | {"local": {"batch_size": 3, "time_slice": "4s"}}
    work = Collaboration([1, 2], {}, how, batch_seconds=2.0)
    work.run()
    proved(work)
    seen = EPOCHS * sum(min(samples, 6) for samples in SHARDS)
    assert work.head.version == pytest.approx(seen / TARGET, rel=0.2)
