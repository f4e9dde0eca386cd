import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.reproduce import large_batch
from benchmarks.reproduce.clothes_task import Perceptron
from benchmarks.reproduce.large_batch import losses_of, synchronous
from benchmarks.reproduce.large_batch_section import large_batch_section, large_batch_verdicts
from benchmarks.reproduce.records import Records
from benchmarks.reproduce.stack import Contribution
from benchmarks.reproduce.study import small
from benchmarks.reproduce.training import Images
from worker_image.seeds import seed_everything


def test_a_steps_loss_is_the_mean_over_its_samples_in_the_order_of_the_steps() -> None:
    contributions = [
        Contribution(version=1, samples=10, loss=1.0),
        Contribution(version=0, samples=30, loss=2.0),
        Contribution(version=0, samples=10, loss=6.0),
    ]

    assert losses_of(contributions) == [3.0, 1.0]


def test_the_synchronous_side_takes_one_step_a_batch_of_shards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_batch, "EPOCHS", 1)
    study = small().shrunk(shards=5, hidden=8, batch_size=2000)

    made = synchronous(study, order_seed=0)

    # One step over all five shards; a batch is a shard, and the loss is that before the step.
    seed_everything(0)
    task = Perceptron(pixels=study.pixels, hidden=8)
    shards = Images.of(study).shards
    with torch.no_grad():
        losses = [float(task.training_step((x, y), 0)) for x, y in shards]
    expected = np.average(losses, weights=[len(y) for _, y in shards])
    assert made["loss"] == [pytest.approx(expected, rel=1e-5)]
    assert 0.0 < made["accuracy"] < 1.0


@pytest.mark.parametrize(("pipeline", "holds"), [([2.0, 1.0], True), ([2.0, 1.9], False)])
def test_the_claim_holds_where_the_pipeline_is_nearer_than_another_order(
    tmp_path: Path, pipeline: list[float], *, holds: bool
) -> None:
    real = {"state": "SUCCEEDED", "audit": "clean", "target_batch_size": 500, "accuracy": 0.9}
    rows = {
        "pipeline": {**real, "slow_seconds": [0.0, 0.2], "loss": pipeline},
        "one process, same order": {"accuracy": 0.9, "loss": [2.0, 1.0]},
        "one process, other order": {"accuracy": 0.9, "loss": [2.0, 1.2]},
    }
    (tmp_path / "large_batch.json").write_text(json.dumps(rows), encoding="utf-8")

    records = Records(tmp_path)

    assert [one.holds for one in large_batch_verdicts(records)] == [holds]
    assert "| one process, other order | 2.000 | 1.200 | 90.0 |" in large_batch_section(
        records, small()
    )


def test_without_the_run_there_is_no_claim(tmp_path: Path) -> None:
    assert not list(large_batch_verdicts(Records(tmp_path)))
