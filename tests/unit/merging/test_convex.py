"""What convex rules and all float buffers share."""

import pytest

from spotgrad.merging.convex import (
    alphas_by_staleness,
    blend_one_by_one,
    buffer_weights,
    convex_recipe,
)
from spotgrad.merging.occasion import Contribution
from spotgrad.protocol.merge import VcAsgd


def test_blending_one_by_one_folds_into_one_pass() -> None:
    assert blend_one_by_one([0.5, 0.75]) == {"server": 0.375, "client-0": 0.375, "client-1": 0.25}
    assert blend_one_by_one([]) == {"server": 1.0}


@pytest.mark.parametrize(
    ("buffers", "weights"),
    [
        ("blend", {"server": 0.375, "client-0": 0.375, "client-1": 0.25}),
        ("latest", {"client-1": 1.0}),
        ("keep", {"server": 1.0}),
    ],
)
def test_float_buffers_are_blended_replaced_or_kept(
    buffers: str, weights: dict[str, float]
) -> None:
    merge = VcAsgd.model_validate({"buffers": buffers})
    assert buffer_weights(merge, [0.5, 0.75]) == weights
    blend = convex_recipe(merge, [0.5, 0.75]).outputs["server"]
    assert blend.buffers == weights
    assert blend.parameters == {"server": 0.375, "client-0": 0.375, "client-1": 0.25}


def test_a_fresh_result_replaces_buffers_and_a_stale_one_does_little() -> None:
    batch = [Contribution(1, 0, 1), Contribution(1, 1, 1), Contribution(1, 9, 1)]
    assert alphas_by_staleness(batch) == [0.0, 0.5, 0.9]
