"""What became of the faults of a run: read from the saved bucket and from the pump's counters.

For people. That nothing was lost is the audit's word, not this module's.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from infra.local.chaos.corruption import KIND as CORRUPT
from infra.local.chaos.crashes import CRASHING
from infra.local.chaos.crashes import KIND as CRASH
from infra.local.chaos.sends import DELAY, DUPLICATE, REORDER
from infra.local.chaos.strikes import KILL, NOTICE
from infra.local.chaos.throttling import KIND as THROTTLE
from infra.local.counters import Counts
from spotgrad.ports import ObjectReader
from spotgrad.protocol.attempt import Attempt
from spotgrad.protocol.keys import ResultKey, attempts_prefix, results_prefix
from spotgrad.steps.chain import read_head
from spotgrad.steps.documents import keyed


@dataclass(frozen=True)
class Aftermath:
    """What the bucket and the counters tell of a run."""

    attempts: Mapping[str | None, int]
    """Attempts by how they ended; those that vanished under None."""
    dropped: int
    """Results beyond the one that each subtask needs: of copies, or of lost leases."""
    refused: int
    functions: Mapping[str, Counts]
    workers_replaced: int

    def of(self, kind: str) -> str:
        """Return one line on what became of the faults of that kind."""
        return {
            KILL: f"{self.attempts.get(None, 0)} attempts vanished, others did their subtasks; "
            f"{self.workers_replaced} workers replaced",
            NOTICE: f"{self.attempts.get('returned', 0)} attempts gave their message back in time",
            DUPLICATE: f"{self.dropped} results more than needed were dropped",
            DELAY: "waited for",
            REORDER: "any order will do",
            CORRUPT: f"{self.refused} results refused, their subtasks sent again",
            THROTTLE: "asked again",
            CRASH: f"{self._crashed} invocations died; what they held came back",
        }[kind]

    @property
    def _crashed(self) -> int:
        return sum(self.functions[name].errors for name in CRASHING if name in self.functions)


def read_aftermath(
    store: ObjectReader, job: str, functions: Mapping[str, Counts], workers_replaced: int
) -> Aftermath:
    """Read it for a job.

    Raises:
        NotFound: the job was never planned.
    """
    head = read_head(store, job)
    attempts = [
        Attempt.from_json(store.get(info.key).body) for info in store.list(attempts_prefix(job))
    ]
    results = [key for _, key in keyed(store, results_prefix(job), ResultKey)]
    wanted = {(key.epoch, key.subtask) for key in results}
    return Aftermath(
        attempts=Counter(attempt.outcome for attempt in attempts),
        dropped=max(0, len(results) - len(wanted) - head.counts.refused - head.counts.failed),
        refused=head.counts.refused,
        functions=functions,
        workers_replaced=workers_replaced,
    )
