"""Faults ``duplicate``, ``delay`` and ``reorder`` on what goes into a queue through the proxy.

The subtasks that functions send: shuffled, late, or there twice. Nothing is dropped.
"""

from collections.abc import Sequence
from typing import Any, Final

from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.exchange import Forward, Request, Response
from infra.local.chaos.spec import ChaosSpec

DUPLICATE: Final = "duplicate"
DELAY: Final = "delay"
REORDER: Final = "reorder"
LATE_SECONDS: Final = 2
"""A second copy may come this much later than the first, and then as late as any message."""

_BATCH: Final = "SendMessageBatch"  # the only way in which this project sends

Entry = dict[str, Any]


class Sends:
    """Disturbs every batch that is sent."""

    def __init__(self, spec: ChaosSpec, dice: Dice, tally: Tally) -> None:
        self._spec = spec
        self._dice = dice
        self._tally = tally

    def __call__(self, request: Request, forward: Forward) -> Response:
        """Forward a batch disturbed, and after it the second copies."""
        if request.operation != _BATCH:
            return forward(request)
        content = request.document()
        entries = self._late(self._reordered(content["Entries"]))
        response = forward(request.with_document({**content, "Entries": entries}))
        again = [entry for entry in entries if self._dice.hit(self._spec.duplicate)]
        if again and response.ok:
            later = [entry | {"DelaySeconds": self._copy_delay()} for entry in again]
            if forward(request.with_document({**content, "Entries": later})).ok:
                self._tally.add(DUPLICATE, len(again))
        return response

    def _reordered(self, entries: Sequence[Entry]) -> list[Entry]:
        if not self._dice.hit(float(self._spec.reorder)):
            return list(entries)
        shuffled = self._dice.shuffled(entries)
        if shuffled != entries:
            self._tally.add(REORDER)
        return shuffled

    def _late(self, entries: list[Entry]) -> list[Entry]:
        if not self._dice.hit(float(self._spec.delay > 0)):
            return entries
        late = [entry | {"DelaySeconds": self._delay()} for entry in entries]
        self._tally.add(DELAY, sum(entry["DelaySeconds"] > 0 for entry in late))
        return late

    def _delay(self) -> int:
        return self._dice.whole(0, int(self._spec.delay))

    def _copy_delay(self) -> int:
        return self._dice.whole(0, LATE_SECONDS) + self._delay()
