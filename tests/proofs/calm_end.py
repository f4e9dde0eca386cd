"""The faults are over: does the job come to the end that it should, and is all of it right?

``finish`` is one schedule of finite length: everybody gets a turn, time passes, again. The rest
checks the end against what really went wrong on the way, which the pipeline has counted.
"""

from collections import Counter
from typing import Final

import numpy as np

from spotgrad.planning.settle import INITIALIZATION
from spotgrad.planning.standing import same
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.head import DeadSubtask, Head
from spotgrad.protocol.keys import ActiveKey, ModelKey, SubtaskName
from spotgrad.protocol.ledger import LedgerEntry, MergedResult
from spotgrad.protocol.tensors import decode
from spotgrad.steps.audit import audit
from spotgrad.steps.change_control import read_control
from spotgrad.steps.documents import read_plan
from spotgrad.steps.replay import replay
from spotgrad.steps.sweep_orphans import GRACE
from tests.builders import JOB, LEASE_SECONDS
from tests.fakes.queue import FakeQueue
from tests.proofs.chronicle import subtasks
from tests.proofs.judge import Violation
from tests.proofs.pipeline import Pipeline
from tests.proofs.stage import Process
from tests.proofs.toy_training import trained

ROUNDS: Final = 60
"""Of a lease and a second each; a job of 12 subtasks needs a dozen when nothing was lost."""

SEEN_IN_THE_LEDGER: Final = ("refused", "failed", "dead", "redriven")


def come_to_the_end(pipeline: Pipeline) -> Counter[str]:
    """Finish the job; then, where something is dead, once more with that; return what was seen.

    Raises:
        Violation: the message says what is wrong.
    """
    head = finish(pipeline)
    check_end(pipeline, head)
    seen = Counter({head.state: 1})
    if head.dead:
        pipeline.redrive()
        head = finish(pipeline)
        check_end(pipeline, head)
        if head.state != "SUCCEEDED":
            raise Violation(f"redriven in peace, the job is {head.state}: {head.reason}")
    return seen + sights(pipeline, head)


def finish(pipeline: Pipeline) -> Head:
    """Let everybody do what is to be done, until nothing is.

    Raises:
        Violation: the job did not end, or something is left over.
    """
    pipeline.curses.clear()
    for worker in pipeline.workers:
        worker.process.frozen = False
    if read_control(pipeline.store, JOB).want == "pause":
        pipeline.resume()
    for _ in range(ROUNDS):
        one_round(pipeline)
        head = pipeline.found_head
        if head is not None and head.ended and not (pipeline.uploads or pipeline.queue.bodies()):
            break
    else:
        raise Violation(f"no progress in {ROUNDS} rounds: {pipeline.found_head}")
    pipeline.wait(GRACE.total_seconds() + 1)
    one_round(pipeline)
    if ActiveKey(JOB).render() in pipeline.store.snapshot():
        raise Violation("the job has ended, but is marked as live")
    return pipeline.head


def one_round(pipeline: Pipeline) -> None:
    """Give everybody a turn; let a lease run out."""
    pipeline.chronicle.check()
    for process in pipeline.processes:
        pipeline.run(process)
    for _ in list(pipeline.uploads):
        pipeline.start_planner()
        run_functions(pipeline)
    if not pipeline.workers:
        pipeline.start_worker()
    for worker in list(pipeline.workers):
        empty_queue(pipeline, worker.process)
    while waiting(pipeline.results):
        pipeline.start_aggregator()
        run_functions(pipeline)
    pipeline.start_reconciler()
    run_functions(pipeline)
    pipeline.wait(LEASE_SECONDS + 1)
    pipeline.chronicle.check()


def run_functions(pipeline: Pipeline) -> None:
    for process in pipeline.functions:
        pipeline.run(process)
    pipeline.functions.clear()


def empty_queue(pipeline: Pipeline, process: Process) -> None:
    pipeline.run(process)
    while not process.over and waiting(pipeline.queue):
        pipeline.run(process)


def waiting(queue: FakeQueue) -> bool:
    """Return whether a message could be received now."""
    return queue.depth() > queue.in_flight()


def check_end(pipeline: Pipeline, head: Head) -> None:
    """Check the end of a job against its plan, its ledger, and the faults that it met.

    Raises:
        Violation: the message says what is wrong.
    """
    entries = pipeline.chronicle.entries(head)
    findings = audit(pipeline.store, JOB).findings
    if findings:
        raise Violation(f"audit: {findings}")
    _check_replay(pipeline, head)
    for entry in entries:
        for row in entry.merged:
            _check_trained(pipeline, row)
    _check_mishaps(pipeline, entries)
    _check_state(pipeline, head, entries)
    for grave in head.dead:
        _check_grave(pipeline, grave, entries)


def _check_replay(pipeline: Pipeline, head: Head) -> None:
    if head.version is None:
        return
    rebuilt = replay(pipeline.store, JOB, head.version)
    if rebuilt.body != pipeline.store.get(head.objects["server"].key).body:
        raise Violation(f"replay of version {head.version} gives another file")


def _check_trained(pipeline: Pipeline, row: MergedResult) -> None:
    """An interrupted subtask comes to what it would have come to without."""
    base = ModelKey(JOB, row.base.version, row.base.commit).render()
    start = dict(decode(pipeline.store.get(base).body).tensors)
    wanted = trained(start, row.epoch, SubtaskName.parse(row.subtask).shard or 0)
    found = decode(pipeline.store.get(row.key).body).tensors
    for name, tensor in wanted.items():
        if tensor.tobytes() != found[name].tobytes():
            raise Violation(f"{row.key}: {name} is not what training from its base gives")


def _check_mishaps(pipeline: Pipeline, entries: list[LedgerEntry]) -> None:
    """Nothing good is refused, nothing but what raised has failed, and each counts once."""
    refused = [row.key for entry in entries for row in entry.refused]
    failed = [row.key for entry in entries for row in entry.failed]
    twice = [key for key, times in Counter(refused + failed).items() if times > 1]
    if twice:
        raise Violation(f"counted twice: {twice}")
    for key in (*refused, *failed):
        if (key in refused) != is_spoilt(pipeline, key):
            raise Violation(f"{key} was set aside without a cause")


def is_spoilt(pipeline: Pipeline, key: str) -> bool:
    """Return whether a result was damaged on its way, or holds nonsense."""
    if key in pipeline.damaged:
        return True
    tensors = decode(pipeline.store.get(key).body).tensors
    return "weight" in tensors and not np.isfinite(tensors["weight"]).all()


def _check_state(pipeline: Pipeline, head: Head, entries: list[LedgerEntry]) -> None:
    plan = read_plan(pipeline.store, JOB)
    whole = set(subtasks(plan))
    merged = {(row.epoch, row.subtask) for entry in entries for row in entry.merged}
    dead = {(one.epoch, one.subtask) for one in head.dead if one.model is None}
    limit = plan.spec.retries.max_dead
    allowed = limit if limit >= 1 else limit * len(whole)
    hopeless = len(head.dead) > allowed or any(epoch == INITIALIZATION for epoch, _ in dead)
    wanted = "FAILED" if hopeless else "DEGRADED" if head.dead else "SUCCEEDED"
    if head.state != wanted:
        raise Violation(f"the job is {head.state}, not {wanted}: {head.reason}")
    if not hopeless and merged | dead != whole:
        raise Violation(f"neither merged nor dead: {whole - merged - dead}")


def _check_grave(pipeline: Pipeline, grave: DeadSubtask, entries: list[LedgerEntry]) -> None:
    """Nothing dies before its retries are used up by what really happened."""
    retries = read_plan(pipeline.store, JOB).spec.retries
    cause = grave.reason.split()[0]
    allowed = {
        "failed": retries.failures,
        "refused": retries.refusals,
        "interrupted": retries.interruptions,
    }[cause]
    if cause == "interrupted":
        happened = pipeline.accidents
    else:
        happened = sum(same(row, grave) for entry in entries for row in getattr(entry, cause))
    if happened <= allowed:
        raise Violation(f"{grave.subtask} is dead ({grave.reason}) after {happened} of {allowed}")


def sights(pipeline: Pipeline, head: Head) -> Counter[str]:
    """Return what the job went through, to see that the machine does reach it."""
    seen = Counter[str]()
    for entry in pipeline.chronicle.entries(head):
        seen += Counter({what: len(getattr(entry, what)) for what in SEEN_IN_THE_LEDGER})
    for key, body in pipeline.store.snapshot().items():
        if key.startswith("attempts/"):
            seen[Attempt.from_json(body).outcome or "vanished"] += 1
        seen["partial"] += key.startswith("partial/")
    seen["commit lost"] = pipeline.lost_commits
    return +seen
