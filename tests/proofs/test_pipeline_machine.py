"""The pipeline under fire: planner, workers, aggregators and reconcile, in any order.

What runs is the product's own code, one request at a time (``stage``); what may happen is in
``pipeline_machine``, what must hold in ``chronicle`` and ``calm_end``; that the check can fail is
shown on pieces that are broken on purpose (``broken_pipeline``).

``make machine`` looks longer, at other examples each time.
"""

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.proofs.broken import Patch
from tests.proofs.broken_pipeline import BROKEN
from tests.proofs.judge import Violation
from tests.proofs.pipeline_machine import PipelineMachine
from tests.proofs.stage import by_hand

MORE = os.environ.get("PIPELINE_EXAMPLES")  # noqa: TID251 - how long to look is asked of a person
EXAMPLES = settings(
    max_examples=int(MORE or 80),
    stateful_step_count=40,
    derandomize=MORE is None,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
MUST_BE_SEEN = {
    "commit lost",
    "dead",
    "failed",
    "redriven",
    "refused",
    "SUCCEEDED",
    "vanished",
} | ({"lease-lost", "partial", "returned"} if MORE else set())
"""A machine to which none of this ever happens would prove little; the last three are too rare to
be seen in every short run, whose examples change with the source code."""
UNTIL_CAUGHT = settings(
    EXAMPLES,
    max_examples=400,
    derandomize=False,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)


@pytest.fixture(autouse=True)
def _hearts_beat_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand(monkeypatch)


@pytest.mark.timeout(0 if MORE else 240)
def test_any_interleaving_comes_to_its_end() -> None:
    PipelineMachine.seen.clear()
    run_state_machine_as_test(PipelineMachine, settings=EXAMPLES)
    assert PipelineMachine.seen.keys() >= MUST_BE_SEEN, PipelineMachine.seen


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_piece_is_caught(
    broken: Callable[[], Iterator[Patch]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for where, name, instead in broken():
        monkeypatch.setattr(where, name, instead)
    finding, good_seed = BROKEN[broken]

    class Seeded(PipelineMachine):
        pass

    with pytest.raises(Violation, match=finding):
        run_state_machine_as_test(seed(good_seed)(Seeded), settings=UNTIL_CAUGHT)
