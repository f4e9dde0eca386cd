import json
from typing import Any

import numpy as np
import pytest
import torch

from spotgrad.errors import Unsupported
from spotgrad.protocol.result import Sum
from worker_image.metrics import Meter, values_of


def test_a_metric_is_weighted_by_the_samples_of_its_batches() -> None:
    meter = Meter()
    meter.add(meter.take({"loss": 1.0}), 3)
    meter.add(meter.take({"loss": 2.0, "accuracy": 0.5}), 1)
    assert meter.sums() == {
        "accuracy": Sum(total=0.5, count=1),
        "loss": Sum(total=5.0, count=4),
    }


def test_logged_values_count_for_the_batch_at_hand() -> None:
    meter = Meter()
    meter.log("a", torch.tensor(1.0), True, on_epoch=True)  # noqa: FBT003 - as Lightning's prog_bar
    meter.log_dict({"b": 2, "c": np.float32(3)}, sync_dist=True)
    meter.add(meter.take({"c": 4.0}), 2)
    meter.add(meter.take({}), 5)
    assert {name: each.total for name, each in meter.sums().items()} == {"a": 2, "b": 4, "c": 8}
    assert {each.count for each in meter.sums().values()} == {2}


def test_what_is_not_finite_is_left_out_so_that_the_header_stays_json(
    caplog: pytest.LogCaptureFixture,
) -> None:
    meter = Meter()
    meter.add(meter.take({"loss": float("nan"), "norm": float("inf"), "accuracy": 1.0}), 2)
    assert list(meter.sums()) == ["accuracy"]
    assert "metric 'loss' is nan" in caplog.text
    assert json.loads(meter.sums()["accuracy"].model_dump_json()) == {"total": 2.0, "count": 2.0}


@pytest.mark.parametrize(
    ("output", "values"),
    [
        (None, {}),
        (torch.tensor(1.5, requires_grad=True), {"loss": 1.5}),
        (2, {"loss": 2.0}),
        (True, {"loss": 1.0}),
        ({"loss": torch.tensor([2.0]), "f1": 0.25}, {"loss": 2.0, "f1": 0.25}),
    ],
)
def test_what_a_step_may_return(output: Any, values: dict[str, float]) -> None:
    assert values_of(output) == values


@pytest.mark.parametrize(
    "output",
    [{"accuracy": torch.ones(2)}, {"accuracy": "good"}, {"accuracy": object()}, {"accuracy": None}],
)
def test_what_is_no_number_is_refused_by_name(output: Any) -> None:
    with pytest.raises(Unsupported, match=r"metric 'accuracy' is a .* not one number"):
        values_of(output)
