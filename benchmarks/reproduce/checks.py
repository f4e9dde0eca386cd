"""The simulator against the local stack: the same parameters, and what each says about time.

``same`` is the ground under all simulated accuracies: one worker, one subtask in flight, same
seeds, and the parameters have to be equal bit for bit. ``calibration`` and ``kills`` are about
seconds of a real, shared machine.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.reproduce.fleet import Fleet
from benchmarks.reproduce.simulator import Plan, simulate
from benchmarks.reproduce.stack import Given, StackRun, run_on_stack
from benchmarks.reproduce.study import Study
from benchmarks.reproduce.training import Images, Pipeline
from spotgrad.merging.kernel import Tensors
from spotgrad.protocol.recipe import SERVER

MERGE: Final = {"rule": "vc-asgd", "alpha": "var"}
EPOCHS: Final = 2
WORKERS: Final = 2
KILLS: Final = (0.0, 0.1, 0.2)
SLOW_SECONDS: Final = 1.0
LEASE_SECONDS: Final = 5.0
"""Of a local run: after so long without a beat a message comes back (the deadline t_o)."""


def same(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield how far simulator and local stack are apart with one worker: not at all."""
    job = study.job(MERGE, epochs=EPOCHS)
    real = _run(study, Given(job, workers=1))
    pipeline = Pipeline(study.spec(MERGE, epochs=EPOCHS), Images.of(study))
    simulate(Plan(EPOCHS, study.shards), Fleet(clients=1), pipeline)
    ours = pipeline.server.objects[SERVER]
    yield (
        "one worker",
        {
            **_facts(real),
            "subtasks": EPOCHS * study.shards,
            "simulated_accuracy": pipeline.clients.accuracy(ours),
            "tensors": len(ours),
            "equal_tensors": sum(_equal(ours[name], real.tensors[name]) for name in ours),
            "largest_difference": _distance(ours, real.tensors),
        },
    )


def agree(rows: Mapping[str, Any]) -> bool:
    """Return whether the record of ``same`` says that all is well."""
    row = rows["one worker"]
    return bool(row["equal_tensors"] == row["tensors"] and row["audit"] == "clean")


def calibration(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the seconds of a real run of each number of workers, and what the simulator says."""
    alone: StackRun | None = None
    for workers in (1, WORKERS):
        job = study.job(MERGE, epochs=EPOCHS, in_flight=workers)
        real = _run(study, Given(job, workers=workers, slow_seconds=(SLOW_SECONDS / 2,)))
        alone = alone or real
        cycle = alone.seconds / (EPOCHS * study.shards)
        fleet = Fleet(clients=workers, subtask_seconds=cycle)
        pipeline = Pipeline(study.spec(MERGE, epochs=EPOCHS, in_flight=workers), Images.of(study))
        trace = simulate(Plan(EPOCHS, study.shards), fleet, pipeline)
        yield (
            f"{workers} workers",
            {
                **_facts(real),
                "cycle_of_one": cycle,
                "simulated_seconds": trace.seconds,
                "simulated_accuracy": pipeline.clients.accuracy(pipeline.server.published),
            },
        )


def kills(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a real run per probability that an attempt's worker is killed; one epoch each."""
    for chance in KILLS:
        job = study.job(MERGE, epochs=1, in_flight=WORKERS)
        given = Given(job, workers=WORKERS, slow_seconds=(SLOW_SECONDS,), kill=chance)
        yield str(chance), {**_facts(_run(study, given)), "subtasks": study.shards}


def _run(study: Study, given: Given) -> StackRun:
    with tempfile.TemporaryDirectory() as folder:
        return run_on_stack(study, given, Path(folder, "job"))


def _facts(real: StackRun) -> dict[str, Any]:
    return {
        "state": real.state,
        "audit": list(real.findings) or "clean",
        "accuracy": real.accuracy,
        "seconds": real.seconds,
        "attempts": len(real.attempts),
        "attempt_seconds": real.attempt_seconds,
        "kills": real.kills,
    }


def _equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def _distance(ours: Tensors, theirs: Mapping[str, NDArray[Any]]) -> float:
    return max(float(np.abs(ours[name].astype(np.float64) - theirs[name]).max()) for name in ours)
