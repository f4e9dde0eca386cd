"""The mean of a window without its largest and smallest, coordinate by coordinate."""

import numpy as np
import pytest

from spotgrad.merging.trimmed_mean import step
from spotgrad.protocol.recipe import waiting


@pytest.mark.parametrize(("trim", "mean"), [(1, 4.0), (2, 5.0)])
def test_it_leaves_out_both_ends(trim: int, mean: float) -> None:
    rows = [100, 2, 5, 5, -7]
    blocks = {waiting(place): np.array([one], np.float32) for place, one in enumerate(rows)}
    numbers = {
        "windows": (5.0,),
        "waiting": (5.0,),
        "eta": (1.0,),
        "trim": (float(trim),),
    }
    made = step(numbers, blocks | {"server": np.array([0], np.float32)})["server"]
    assert made == pytest.approx([mean])
