"""Large batches of gradients: how full the step at hand is, and what it still needs (DeDLOC).

Not the step (``merging.dedloc``). Invariant: where late gradients are dropped, no more goes out
than the step at hand needs, and the step waits for what is out. So nobody computes in vain, and
which samples a step is made of depends on the job alone, never on who works or how fast.
"""

from collections.abc import Iterable, Iterator

from spotgrad.planning.standing import number_of, open_items
from spotgrad.protocol.head import Head, WorkItem
from spotgrad.protocol.merge import DeDLOC
from spotgrad.protocol.plan import JobPlan
from spotgrad.protocol.recipe import MASS

TRAIN = "train-"


def is_full(head: Head, plan: JobPlan, samples: int = 0) -> bool:
    """Return whether ``samples``, with what the head's objects hold, make an optimizer step."""
    merge = plan.spec.merge
    if not isinstance(merge, DeDLOC) or _collected(head) + samples < merge.target_batch_size:
        return False
    return merge.late != "drop" or not any(map(_is_training, open_items(head)))


def is_too_late(head: Head, plan: JobPlan, base_version: int) -> bool:
    """Return whether a gradient at this version is of no use any more."""
    merge = plan.spec.merge
    if not isinstance(merge, DeDLOC):
        return False
    return (head.version or 0) - base_version > merge.tolerance


def within_step(head: Head, plan: JobPlan, candidates: Iterable[WorkItem]) -> Iterator[WorkItem]:
    """Yield the candidates that the step at hand needs; all, where late gradients have a use."""
    merge = plan.spec.merge
    if not isinstance(merge, DeDLOC) or merge.late != "drop":
        yield from candidates
        return
    expected = _collected(head) + sum(_samples(plan, item) for item in open_items(head))
    for item in candidates:
        if not _is_training(item) or expected < merge.target_batch_size:
            expected += _samples(plan, item)
            yield item


def shard_samples(plan: JobPlan, item: WorkItem) -> int:
    """Return how many samples a training subtask's shard has."""
    return plan.manifest.splits["train"].shards[number_of(item)].samples


def _samples(plan: JobPlan, item: WorkItem) -> int:
    return shard_samples(plan, item) if _is_training(item) else 0


def _is_training(item: WorkItem) -> bool:
    return item.subtask.startswith(TRAIN)


def _collected(head: Head) -> float:
    return head.tally.get(MASS, 0.0)
