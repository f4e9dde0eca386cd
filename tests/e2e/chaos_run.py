"""Everything goes wrong at once, on the real code path, and nothing is lost: one seed, 3 epochs."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.chaos import EVERYTHING, run_and_check

CERTAIN = ("kill", "duplicate", "reorder", "throttle", "aggregator-crash")


@pytest.mark.timeout(600)
def test_three_epochs_of_chaos_lose_nothing(tmp_path: Path) -> None:
    run, status = run_and_check(tmp_path, replace(EVERYTHING, seed=1), epochs=3)
    assert status.metrics["accuracy"] >= 0.93
    injected = run.outcome.chaos
    assert set(injected) == set(EVERYTHING.kinds)
    assert min(injected[kind] for kind in CERTAIN) > 0
    assert sum(injected.values()) > 50
