"""Every merge rule from its job file to a model: merged in batches, replayed and audited."""

from typing import Any

import numpy as np
import pytest

from spotgrad.planning.standing import open_items
from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import ResultKey, SubtaskName
from spotgrad.protocol.result import Base, Evaluated, Initialized, Role, Sum, Trained
from spotgrad.protocol.tensors import decode
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import version_entries
from spotgrad.steps.replay import replay
from tests.builders import JOB, Bench, Tensors, item

ROLES: dict[str, Role] = {
    "weight": "parameter",
    "twin": "alias",
    "frozen": "frozen",
    "running_var": "buffer",
    "count": "buffer",
    "flag": "buffer",
}
SHARDS, EPOCHS = 6, 3
RULES: dict[str, dict[str, Any]] = {
    "vc-asgd": {"rule": "vc-asgd", "alpha": 0.8},
    "vc-asgd-epoch": {"rule": "vc-asgd", "start": "epoch"},
    "vc-asgd-latest": {"rule": "vc-asgd", "buffers": "latest"},
    "vc-asgd-keep-ema": {"rule": "vc-asgd", "buffers": "keep", "ema": 0.9},
    "fedasync": {"rule": "fedasync"},
    "fedasync-hinge": {"rule": "fedasync", "decay": "hinge", "after": 1},
    "easgd": {"rule": "easgd"},
    "delta": {"rule": "delta"},
    "damped-delta": {"rule": "damped-delta"},
    "damped-delta-ema": {"rule": "damped-delta", "ema": 0.98, "m": "in-flight"},
    "delayed-nesterov": {"rule": "delayed-nesterov", "every": 4},
    "delayed-nesterov-ema": {"rule": "delayed-nesterov", "every": 5, "spread": 0.5, "ema": 0.9},
    "fedbuff": {"rule": "fedbuff", "size": 4},
    "fedbuff-ema": {"rule": "fedbuff", "size": 5, "weigh": "samples", "ema": 0.9},
    "fedbuff-latest": {"rule": "fedbuff", "size": 2, "buffers": "latest"},
    "fedavg": {"rule": "fedavg"},
    "fedavg-latest-ema": {"rule": "fedavg", "buffers": "latest", "ema": 0.9},
    "diloco": {"rule": "diloco"},
    "diloco-keep-samples": {"rule": "diloco", "buffers": "keep", "weigh": "samples", "ema": 0.5},
    "dc-asgd": {"rule": "dc-asgd"},
    "dc-asgd-adaptive": {"rule": "dc-asgd", "adaptive": True, "ema": 0.9},
}


def model(seed: int, near: Tensors | None = None) -> Tensors:
    draw = np.random.default_rng(seed)
    weight = draw.standard_normal((3, 5)).astype(np.float32)
    if near is not None:
        weight = (near["weight"] + 0.1 * weight).astype(np.float32)
    return {
        "weight": weight,
        "twin": weight.copy(),
        "frozen": np.full(4, 0.1, np.float32),
        "running_var": draw.random(3).astype(np.float32),
        "count": np.array(seed, np.int64),
        "flag": np.array([True, False]),
    }


class Worker:
    """Trains from the version that the head, or the subtask's epoch, names."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._done = 0

    def begin(self) -> list[tuple[WorkItem, Base, Tensors]]:
        """Look at every open subtask, and fetch what it begins from."""
        return [(one, *self._start(one)) for one in open_items(self._bench.head)]

    def finish(self, begun: tuple[WorkItem, Base, Tensors]) -> ResultKey:
        one, base, start = begun
        self._done += 1
        body = model(self._done, start)
        samples = 10 + self._done
        return self._bench.put(one, Trained(base=base, samples=samples, roles=ROLES), body)

    def _start(self, one: WorkItem) -> tuple[Base, Tensors]:
        head = self._bench.head
        fixed = next((each.start for each in head.epochs if each.epoch == one.epoch), None)
        wanted = fixed or head.model
        assert wanted is not None
        entry = version_entries(self._bench.store, head)[wanted.version]
        base = Base(
            version=wanted.version, commit=wanted.commit, results_merged=entry.results_merged
        )
        return base, decode(self._bench.store.get(wanted.key).body).tensors


def evaluate(bench: Bench) -> None:
    for one in list(bench.head.evaluations):
        assert bench.store.get(one.model.key).body
        sums = {"accuracy": Sum(total=5, count=10)}
        said = Evaluated(version=one.model.version, commit=one.model.commit, sums=sums)
        for shard in range(one.subtasks):
            bench.aggregate(bench.put(item(one.epoch, f"evaluate-{shard:06d}"), said))


def trained_to_the_end(merge: dict[str, Any], batch: int) -> Bench:
    """Four subtasks are out at once, so that results are stale; ``batch`` are merged together."""
    bench = Bench()
    bench.upload(SHARDS, epochs=EPOCHS, merge=merge, schedule={"max_in_flight": 4})
    bench.plan()
    bench.aggregate(bench.put(item(0, "initialize"), Initialized(roles=ROLES), model(0)))
    worker = Worker(bench)
    while not bench.head.ended:
        begun = [one for one in worker.begin() if SubtaskName.parse(one[0].subtask).kind == "train"]
        for first in range(0, len(begun), batch):
            bench.aggregate(*(worker.finish(one) for one in begun[first : first + batch]))
        evaluate(bench)
    return bench


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", RULES)
def test_from_the_job_file_to_an_audited_model(name: str, batch: int) -> None:
    bench = trained_to_the_end(RULES[name], batch)
    head = bench.head
    assert (head.state, head.results_merged) == ("SUCCEEDED", SHARDS * EPOCHS)
    report = audit(bench.store, JOB)
    assert report.findings == ()
    assert report.versions_rebuilt == report.versions == (head.version or 0) + 1
    assert replay(bench.store, JOB, head.version or 0).same
    check_model(bench.model().tensors)


def check_model(tensors: Tensors) -> None:
    assert np.isfinite(tensors["weight"]).all()
    assert tensors["twin"].tobytes() == tensors["weight"].tobytes()
    assert tensors["frozen"].tobytes() == model(0)["frozen"].tobytes()
    assert (tensors["running_var"] >= 0).all()
    assert (tensors["running_var"] <= 1).all()
    assert tensors["count"] == SHARDS * EPOCHS
    assert tensors["flag"].tolist() == [True, False]


def test_replay_needs_only_what_is_left_of_a_job_with_several_objects() -> None:
    """Older versions have expired: bases and momentum are rebuilt on the way."""
    bench = trained_to_the_end(RULES["delayed-nesterov-ema"], 1)
    whole = bench.model()
    for entry in version_entries(bench.store, bench.head)[:-1]:
        for reference in entry.written.values():
            bench.store.delete(reference.key)
    report = audit(bench.store, JOB)
    assert report.findings == ()
    assert report.versions_rebuilt == report.versions
    rebuilt = replay(bench.store, JOB, bench.head.version or 0)
    assert rebuilt.same
    assert decode(rebuilt.body).tensors["weight"].tobytes() == whole.tensors["weight"].tobytes()
