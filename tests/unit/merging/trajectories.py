"""The golden trajectories of all rules: every object after every result, bit for bit.

The files change on purpose only: ``python -m tests.unit.merging.trajectories`` writes them anew.
"""

import json
from pathlib import Path
from typing import Any

from tests.unit.merging.stage import Arrays, Stage, script, spec_of, start

GOLDEN = Path(__file__).parents[2] / "golden"
RESULTS, IN_FLIGHT, SHARDS = 24, 4, 6
CASES: dict[str, dict[str, Any]] = {
    "fedasync": {"rule": "fedasync"},
    "fedasync_hinge": {
        "rule": "fedasync",
        "decay": "hinge",
        "after": 1.0,
        "slope": 2.0,
        "alpha": "var",
    },
    "easgd": {"rule": "easgd"},
    "delta": {"rule": "delta"},
    "damped_delta": {"rule": "damped-delta"},
    "damped_delta_in_flight": {"rule": "damped-delta", "m": "in-flight"},
    "dc_asgd": {"rule": "dc-asgd"},
    "dc_asgd_adaptive": {"rule": "dc-asgd", "adaptive": True, "eta": 0.125},
    "delayed_nesterov": {"rule": "delayed-nesterov"},
    "delayed_nesterov_spread": {"rule": "delayed-nesterov", "every": 5, "spread": 0.5},
    "fedbuff": {"rule": "fedbuff"},
    "fedbuff_samples": {"rule": "fedbuff", "size": 3, "weigh": "samples"},
    "fedavg": {"rule": "fedavg"},
    "diloco": {"rule": "diloco"},
    "diloco_samples": {"rule": "diloco", "eta": 1.0, "momentum": 0.5, "weigh": "samples"},
    "ema": {"rule": "vc-asgd", "ema": 0.9},
}


def path(name: str) -> Path:
    """Where the trajectory called ``name`` is kept."""
    return GOLDEN / f"{name}.json"


def document(name: str) -> dict[str, Any]:
    """What the file of trajectory ``name`` holds; hexadecimal floats show every bit."""
    stage, steps = Stage(spec_of(IN_FLIGHT, **CASES[name]), start()), []
    for number, result in enumerate(script(RESULTS, in_flight=IN_FLIGHT), start=1):
        stage.merge([result], closes=None if number % SHARDS else "round")
        steps.append({kept: _bits(tensors) for kept, tensors in sorted(stage.objects.items())})
    return {"merge": CASES[name], "in_flight": IN_FLIGHT, "objects_after_each_result": steps}


def _bits(tensors: Arrays) -> dict[str, list[str]]:
    return {name: [float(value).hex() for value in each] for name, each in tensors.items()}


if __name__ == "__main__":
    for case in CASES:
        path(case).write_text(json.dumps(document(case), indent=1) + "\n")
