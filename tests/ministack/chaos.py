"""The digits job under chaos with ministack as the local run's AWS: two epochs, one seed.

Only S3 and SQS are ministack's: the event pump, the functions, the workers and the faults are those
of every local run.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.chaos import EVERYTHING, run_and_check
from tests.ministack.emulator import MINISTACK


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("installed")
def test_chaos_on_ministack_loses_nothing(tmp_path: Path) -> None:
    run, _ = run_and_check(tmp_path, replace(EVERYTHING, seed=1), epochs=2, server=MINISTACK)
    injected = run.outcome.chaos
    assert set(injected) == set(EVERYTHING.kinds)
    assert sum(injected.values()) > 30
