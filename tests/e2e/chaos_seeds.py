"""``make chaos``: the whole job under chaos, with three seeds. Long, so not collected by itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.chaos import EVERYTHING, run_and_check

CALM_ACCURACY = 0.975
"""What ten epochs of a calm run reach at least; test_local_run holds it to that."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_whole_job_under_chaos_ends_as_a_calm_one(tmp_path: Path, seed: int) -> None:
    _, status = run_and_check(tmp_path, replace(EVERYTHING, seed=seed), epochs=10)
    assert status.metrics["accuracy"] >= CALM_ACCURACY - 0.01
