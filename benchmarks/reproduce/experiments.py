"""The experiments on accuracy, each from a study to plain numbers: alpha, PxCyTz, all rules.

Not time alone (``preemption``), money (``cost``) or the local stack (``stack``).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.reproduce.fleet import Fleet
from benchmarks.reproduce.run import Case, measure
from benchmarks.reproduce.simulator import Clockwork, Plan, simulate
from benchmarks.reproduce.study import Study
from benchmarks.reproduce.training import Images, Pipeline, Version

ALPHAS: Final[tuple[float | str, ...]] = (0.7, 0.95, 0.999, "var")
ALPHA_FLEET: Final = Fleet(clients=5, subtasks_per_client=2)
"""P5C5T2's ten subtasks in flight; which configuration the paper's own figure used is unknown."""

CONFIGURATIONS: Final = tuple(
    (servers, clients, at_once)
    for servers, clients in ((1, 3), (3, 3), (5, 5))
    for at_once in (2, 4, 8)
)
CORES: Final = 4.0
"""Of a simulated client: four subtasks at once run at full speed, eight at half."""

IN_FLIGHT: Final = (1, 4, 16)
RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "vc-asgd, var": {"rule": "vc-asgd", "alpha": "var"},
    "vc-asgd, 0.7": {"rule": "vc-asgd", "alpha": 0.7},
    "vc-asgd, 0.95": {"rule": "vc-asgd", "alpha": 0.95},
    "fedasync": {"rule": "fedasync"},
    "easgd": {"rule": "easgd"},
    "delta": {"rule": "delta"},
    "dc-asgd": {"rule": "dc-asgd"},
    "damped-delta": {"rule": "damped-delta"},
    "damped-delta, ema": {"rule": "damped-delta", "ema": 0.98},
    "delayed-nesterov": {"rule": "delayed-nesterov"},
    "delayed-nesterov, ema": {"rule": "delayed-nesterov", "ema": 0.98},
    "fedbuff": {"rule": "fedbuff"},
    "fedavg": {"rule": "fedavg"},
    "diloco": {"rule": "diloco"},
    "median": {"rule": "median"},
    "trimmed-mean": {"rule": "trimmed-mean"},
    "krum": {"rule": "krum"},
    "centered-clipping": {"rule": "centered-clipping"},
}
REPEATED: Final = ("vc-asgd, var", "vc-asgd, 0.7", "damped-delta, ema", "delayed-nesterov, ema")
SEEDS: Final = (1, 2)
"""Beside seed 0, which all rules are run with."""
SINGLE: Final = {"rule": "delta", "eta": 1.0}
"""With one shard and one place the server copy becomes the client's: a machine on its own."""


def single(study: Study, epochs: int) -> dict[str, Any]:
    """Train on one machine: the whole data set is one shard, an epoch is one subtask."""
    spec = study.spec(SINGLE, epochs=epochs, lr=study.single_lr)
    return measure(Case(spec, Images.of(study).whole, Fleet(clients=1, spread=0.0)))


def alpha(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a run per value of alpha, and the single machine."""
    yield "single machine", single(study, study.epochs)
    images = Images.of(study)
    for value in ALPHAS:
        spec = study.spec({"alpha": value}, in_flight=ALPHA_FLEET.places)
        yield str(value), measure(Case(spec, images, ALPHA_FLEET, study.glance))


def calibrate(study: Study, subtasks: int = 200) -> dict[str, Any]:
    """Return the seconds that a subtask, a merge and an evaluation take on this machine."""
    images, spec = Images.of(study), study.spec({"alpha": "var"})
    pipeline = Pipeline(spec, images)
    for number in range(subtasks):
        start: Version = pipeline.server.version
        result = pipeline.train(1, number % study.shards, start)
        pipeline.admit(result)
        pipeline.merge(1, result, ends_epoch=False, ends_job=False)
        pipeline.clients.accuracy(pipeline.server.published, study.glance)
    return {
        "subtask": pipeline.clients.training.mean,
        "merge": pipeline.server.merging.seconds / subtasks,
        "evaluation": pipeline.clients.evaluation.mean,
    }


def configurations(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the measured times, then a run per PxCyTz; each merge is followed by an evaluation."""
    here = calibrate(study)
    yield "calibration", here
    images = Images.of(study)
    for servers, clients, at_once in CONFIGURATIONS:
        fleet = Fleet(
            clients=clients,
            subtasks_per_client=at_once,
            cores=CORES,
            servers=servers,
            subtask_seconds=here["subtask"],
            merge_seconds=here["merge"] + here["evaluation"],
        )
        changes = {"in_flight": fleet.places, "epochs": study.short_epochs}
        spec = study.spec({"alpha": "var"}, **changes)
        yield f"P{servers}C{clients}T{at_once}", measure(Case(spec, images, fleet))


def rules(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the single machine, then a run per rule and number of subtasks in flight."""
    yield "single machine", single(study, study.short_epochs)
    images = Images.of(study)
    for name, merge in RULES.items():
        for in_flight in IN_FLIGHT:
            spec = study.spec(merge, in_flight=in_flight, epochs=study.short_epochs)
            case = Case(spec, images, Fleet(clients=in_flight))
            if spec.merge.in_rounds and in_flight != IN_FLIGHT[0]:
                continue  # a round's mean does not depend on how many train at once: ``_timed``
            kept = measure(case)
            yield f"{name} / {in_flight}", kept
            if spec.merge.in_rounds:
                yield from _timed(name, study, kept)


def seeds(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rules that matter with other seeds: of the model, the order and the durations."""
    images = Images.of(study)
    for name in REPEATED:
        for in_flight in IN_FLIGHT[1:]:
            for seed in SEEDS:
                changes = {"in_flight": in_flight, "epochs": study.short_epochs, "seed": seed}
                spec = study.spec(RULES[name], **changes)
                case = Case(spec, images, Fleet(clients=in_flight), seed=seed)
                yield f"{name} / {in_flight} / {seed}", measure(case)


def _timed(
    name: str, study: Study, kept: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a round-based run at other numbers in flight: the same accuracy, other seconds."""
    for in_flight in IN_FLIGHT[1:]:
        plan = Plan(study.short_epochs, study.shards)
        trace = simulate(plan, Fleet(clients=in_flight), Clockwork())
        times = {"epoch_ends": trace.epoch_ends, "seconds": trace.seconds}
        yield f"{name} / {in_flight}", {**kept, **times, "in_flight": in_flight}
