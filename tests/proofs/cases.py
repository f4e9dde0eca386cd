"""The moments in a job's life at which a step is cut off: each brings a bench there.

A case returns the step that is to be disturbed. What its workers worked on has left the queue, as a
worker's delete makes it: what has to go out again can be received only if it really was sent.
"""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from spotgrad.ports import Message
from spotgrad.protocol.head import WorkItem
from spotgrad.protocol.keys import ControlKey, LedgerKey, ModelKey
from spotgrad.protocol.subtask import Subtask
from spotgrad.steps.sweep_orphans import GRACE
from tests.builders import LEASE_SECONDS, Bench, evaluation, item, names, tensors, train
from tests.fakes.faults import Crashed
from tests.proofs.sabotage import Damage, SabotagedBench

Step = Callable[[], object]
Case = Callable[[SabotagedBench], Step]

MAY_DIE = {"max_dead": 2}
AFTER_THE_HEAD = 3  # a merge writes the model, the ledger entry, the head
AFTER_THE_FIRST_HEAD = 4  # planning writes the spec, the mark of a live job, the entry, the head


def take(bench: Bench, *items: WorkItem) -> None:
    """Workers receive and delete these subtasks' messages; without any, every message."""
    wanted = names(items)
    messages: list[Message] = []
    while received := bench.queue.receive(most=10, wait_seconds=0):
        messages += received
    for message in messages:
        subtask = Subtask.from_json(message.body)
        if not wanted or (subtask.epoch, subtask.subtask) in wanted:
            bench.queue.delete(message)
        else:
            bench.queue.extend(message, lease_seconds=0)


def _trained(bench: Bench, shards: Collection[int], epoch: int = 1) -> Step:
    """Workers hand in these shards, the last one first; the step merges them all at once."""
    take(bench, *(train(epoch, shard) for shard in shards))
    keys = [bench.trained(epoch, shard, value=1.0 + shard) for shard in sorted(shards)[::-1]]
    return lambda: bench.aggregate(*keys)


def _with_nan(bench: Bench, shard: int) -> Step:
    take(bench, train(1, shard))
    bad = tensors() | {"weight": np.full((2, 2), np.nan, np.float32)}
    key = bench.trained(1, shard, body=bad)
    return lambda: bench.aggregate(key)


def _closed(bench: Bench, **fields: Any) -> Bench:
    """Epoch 1 is merged and its evaluation is out."""
    bench.start(**fields)
    _trained(bench, range(4))()
    take(bench, evaluation(1))
    return bench


def new_job(bench: SabotagedBench) -> Step:
    bench.upload()
    return bench.plan


def planned_before(bench: SabotagedBench) -> Step:
    """The upload's event comes again while the first planner's outbox is still unsent."""
    bench.upload()
    bench.disturbed(bench.plan, Damage(Crashed, "after", AFTER_THE_FIRST_HEAD))
    if not bench.head.outbox:
        raise LookupError("the cut did not fall between the head and the send")
    return bench.plan


def initialize(bench: SabotagedBench) -> Step:
    bench.upload()
    bench.plan()
    take(bench, item(0, "initialize"))
    key = bench.initialized(0.5)
    return lambda: bench.aggregate(key)


def train_batch(bench: SabotagedBench) -> Step:
    bench.start()
    return _trained(bench, (0, 1))


def train_batch_of_several_objects(bench: SabotagedBench) -> Step:
    """Server copy, average, momentum and buffer: the batch closes a window and begins the next."""
    bench.start(merge={"rule": "delayed-nesterov", "every": 2, "ema": 0.9})
    _trained(bench, (0,))()
    return _trained(bench, (1, 2))


def train_batch_without_a_version(bench: SabotagedBench) -> Step:
    bench.start(merge={"rule": "fedbuff", "size": 3})
    return _trained(bench, (0, 1))


def last_result_of_an_open_window(bench: SabotagedBench) -> Step:
    """Two results wait in the buffer; the job's last one takes them along."""
    bench.start(epochs=1, merge={"rule": "fedbuff", "size": 4, "ema": 0.9}, shards=3)
    _trained(bench, (0, 1))()
    return _trained(bench, (2,))


def train_batch_in_a_window(bench: SabotagedBench) -> Step:
    bench.start(schedule={"max_in_flight": 2})
    open_shards = [shard for shard in range(4) if bench.head.epochs[0].issued.has(shard)]
    return _trained(bench, open_shards)


def train_batch_rolling(bench: SabotagedBench) -> Step:
    bench.start(schedule={"issue": "rolling"})
    return _trained(bench, (1, 2))


def epoch_close(bench: SabotagedBench) -> Step:
    bench.start()
    _trained(bench, (0, 1, 2))()
    return _trained(bench, (3,))


def evaluation_result(bench: SabotagedBench) -> Step:
    key = _closed(bench).evaluated(1, accuracy=0.5)
    return lambda: bench.aggregate(key)


def stop_rule_met(bench: SabotagedBench) -> Step:
    key = _closed(bench, stop={"metric": "accuracy", "at_least": 0.4}).evaluated(1, accuracy=0.5)
    return lambda: bench.aggregate(key)


def last_result(bench: SabotagedBench) -> Step:
    key = _closed(bench, epochs=1).evaluated(1, accuracy=0.5)
    return lambda: bench.aggregate(key)


def refused_result(bench: SabotagedBench) -> Step:
    bench.start()
    return _with_nan(bench, 0)


def refused_once_too_often(bench: SabotagedBench) -> Step:
    bench.start(retries={"refusals": 0, **MAY_DIE})
    return _with_nan(bench, 0)


def refused_to_the_end(bench: SabotagedBench) -> Step:
    bench.start(retries={"refusals": 0, "max_dead": 0})
    return _with_nan(bench, 0)


def failed_result(bench: SabotagedBench) -> Step:
    bench.start()
    take(bench, train(1, 0))
    key = bench.failed(train(1, 0))
    return lambda: bench.aggregate(key)


def mixed_batch(bench: SabotagedBench) -> Step:
    bench.start()
    take(bench)
    keys = [
        bench.trained(1, 2, value=3.0),
        bench.trained(1, 1, samples=0),
        bench.failed(train(1, 3)),
        bench.trained(1, 0, value=2.0),
    ]
    return lambda: bench.aggregate(*keys)


def unsent_outbox(bench: SabotagedBench) -> Step:
    """A commit went through, and its aggregator is gone before it could send."""
    bench.start()
    bench.disturbed(_trained(bench, range(4)), Damage(Crashed, "after", AFTER_THE_HEAD))
    if not bench.head.outbox:
        raise LookupError("the cut did not fall between the head and the send")
    bench.clock.advance(LEASE_SECONDS + 1)
    return bench.reconcile


def lost_messages(bench: SabotagedBench) -> Step:
    bench.start()
    take(bench)
    bench.clock.advance(LEASE_SECONDS + 1)
    return bench.reconcile


def lost_events(bench: SabotagedBench) -> Step:
    bench.start()
    _trained(bench, range(4))
    bench.clock.advance(LEASE_SECONDS + 1)
    return bench.reconcile


def vanished_worker(bench: SabotagedBench) -> Step:
    bench.start()
    take(bench, train(1, 0))
    bench.attempt(train(1, 0))
    bench.clock.advance(2 * LEASE_SECONDS + 1)
    return bench.reconcile


def vanished_once_too_often(bench: SabotagedBench) -> Step:
    bench.start(retries={"interruptions": 0, **MAY_DIE})
    take(bench, train(1, 0))
    bench.attempt(train(1, 0))
    bench.clock.advance(2 * LEASE_SECONDS + 1)
    return bench.reconcile


def resumed(bench: SabotagedBench) -> Step:
    bench.start()
    take(bench)
    bench.store.put(ControlKey(bench.head.job).render(), b'{"schema": 1, "resume": "00ff00ff"}')
    return bench.reconcile


def ended(bench: SabotagedBench) -> Step:
    """The job is over for more than an hour, and a lost commit has left two objects behind."""
    last_result(bench)()
    for key in orphans(bench):
        bench.store.put(key, b"of a commit that lost")
    bench.clock.advance(GRACE.total_seconds() + 1)
    return bench.reconcile


def orphans(bench: Bench) -> tuple[str, str]:
    """Return keys beside the newest version and revision, of a commit that is in no chain."""
    head, lost = bench.head, "10" * 8
    model = ModelKey(head.job, head.version or 0, lost).render()
    return model, LedgerKey(head.job, head.revision, lost).render()


PLAN: tuple[Case, ...] = (new_job, planned_before)
AGGREGATE: tuple[Case, ...] = (
    initialize,
    train_batch,
    train_batch_of_several_objects,
    train_batch_without_a_version,
    last_result_of_an_open_window,
    train_batch_in_a_window,
    train_batch_rolling,
    epoch_close,
    evaluation_result,
    stop_rule_met,
    last_result,
    refused_result,
    refused_once_too_often,
    refused_to_the_end,
    failed_result,
    mixed_batch,
)
RECONCILE: tuple[Case, ...] = (
    unsent_outbox,
    lost_messages,
    lost_events,
    vanished_worker,
    vanished_once_too_often,
    resumed,
    ended,
)
