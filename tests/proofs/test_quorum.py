"""The quorum of admission from the job file to the end: one worker lies, and is found out."""

from typing import Any

import numpy as np
import pytest

from spotgrad.planning.standing import check_of, open_items
from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import ResultKey
from spotgrad.protocol.result import Base, Trained
from spotgrad.protocol.subtask import Subtask
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import walk_back
from tests.builders import JOB, LEASE_SECONDS, ROLES, Bench, item, put_result, tensors

HONEST = ("worker-a", "worker-b", "worker-c")
LIAR = "worker-liar"
SHARDS, EPOCHS = 6, 6


class Crowd:
    """Workers that take turns at the queue; each trains from the version that the head names."""

    def __init__(self, share: float = 1.0, *, liar: bool = True) -> None:
        self.bench = Bench()
        quorum = {"share": share, "tolerance": 0.25}
        self.bench.upload(
            SHARDS, epochs=EPOCHS, workers={"max": 4}, admission={"norm": "off", "quorum": quorum}
        )
        self.bench.plan()
        self.bench.aggregate(self.bench.initialized())
        self.workers = (HONEST[0], LIAR, *HONEST[1:]) if liar else HONEST
        self.turn = 0

    def run(self) -> None:
        """Until the job has ended; reconcile comes round when the queue is empty."""
        for _ in range(400):
            if self.bench.head.ended:
                return
            messages = self.bench.drain()
            for message in messages:
                self._work(message)
            if not messages:
                self.bench.clock.advance(2 * LEASE_SECONDS + 1)
                self.bench.reconcile()
        raise AssertionError("the job does not end")

    def _work(self, message: Subtask) -> None:
        one = item(message.epoch, message.subtask)
        if one not in [*open_items(self.bench.head)] and check_of(self.bench.head, one) is None:
            return
        if one.subtask.startswith("evaluate"):
            self.bench.aggregate(self.bench.evaluated(one.epoch))
            return
        self.turn += 1
        self.bench.aggregate(self._trained(one, self.workers[self.turn % len(self.workers)]))

    def _trained(self, one: WorkItem, worker: str) -> ResultKey:
        check = check_of(self.bench.head, one)
        base = self.bench.base() if check is None else self._base(check.model)
        body = tensors(self._said(one, worker))
        outcome = Trained(base=base, samples=10, roles=ROLES)
        key = self.bench.result_key(one)
        run = self.bench.head.run
        return put_result(self.bench.store, key, outcome, body, worker=worker, run=run)

    def _base(self, model: Any) -> Base:
        chain = (entry for _, entry in walk_back(self.bench.store, self.bench.head))
        merged = next(entry.results_merged for entry in chain if entry.commit == model.commit)
        return Base(version=model.version, commit=model.commit, results_merged=merged)

    @staticmethod
    def _said(one: WorkItem, worker: str) -> float:
        """What the shard gives in this epoch, and the opposite from the liar."""
        value = 5.0 + one.epoch + int(one.subtask[-6:]) / 10
        return -value if worker == LIAR else value


def refusals(bench: Bench) -> list[str]:
    chain = [entry for _, entry in walk_back(bench.store, bench.head)]
    return [row.reason for entry in chain for row in entry.refused]


def test_a_worker_that_lies_is_outvoted_and_quarantined() -> None:
    crowd = Crowd()
    crowd.run()
    head = crowd.bench.head
    assert (head.state, head.results_merged) == ("SUCCEEDED", EPOCHS * SHARDS)
    assert head.dissent.keys() == head.quarantined == {LIAR}
    said = refusals(crowd.bench)
    assert said
    assert set(said) == {f"worker {LIAR} is quarantined: its results were outvoted"}
    assert audit(crowd.bench.store, JOB).findings == ()
    assert head.dead == ()


def test_after_that_nothing_of_it_enters_the_model() -> None:
    crowd = Crowd()
    crowd.run()
    chain = [entry for _, entry in walk_back(crowd.bench.store, crowd.bench.head)][::-1]
    ends = [
        number
        for number, entry in enumerate(chain)
        for row in entry.compared
        if "it is quarantined" in row.reason
    ]
    assert len(ends) == 1
    for entry in chain[ends[0] + 1 :]:
        for row in entry.merged:
            body = crowd.bench.store.get(row.key).body
            assert LIAR.encode() not in body


def test_honest_workers_are_never_judged() -> None:
    crowd = Crowd(liar=False)
    crowd.run()
    assert (crowd.bench.head.state, crowd.bench.head.dissent) == ("SUCCEEDED", {})
    assert audit(crowd.bench.store, JOB).findings == ()
    assert refusals(crowd.bench) == []


def test_without_a_sample_the_liar_is_not_found() -> None:
    """The proof that the quorum is what finds it."""
    crowd = Crowd(share=1e-9)
    crowd.run()
    assert (crowd.bench.head.state, crowd.bench.head.dissent) == ("SUCCEEDED", {})


@pytest.mark.parametrize("share", [0.5])
def test_the_sample_is_the_same_every_time(share: float) -> None:
    heads = []
    for _ in range(2):
        crowd = Crowd(share=share)
        crowd.run()
        chain = [entry for _, entry in walk_back(crowd.bench.store, crowd.bench.head)]
        heads.append([(row.epoch, row.subtask) for entry in chain for row in entry.compared])
    assert heads[0] == heads[1] != []
    assert np.isfinite(crowd.bench.model().tensors["weight"]).all()
