"""Fault ``corrupt``: a result is stored damaged, and its worker is told that all is well."""

from typing import Final

from infra.local.chaos.damage import DAMAGES
from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.exchange import Forward, Request, Response
from spotgrad.protocol.keys import RESULTS_PREFIX

KIND: Final = "corrupt"


class Corruption:
    """Damages each result with the same probability, each time in one of the known ways."""

    def __init__(self, probability: float, dice: Dice, tally: Tally) -> None:
        self._probability = probability
        self._dice = dice
        self._tally = tally

    def __call__(self, request: Request, forward: Forward) -> Response:
        """Forward a result as it is, or damaged."""
        key = request.put_key
        if key is None or not key.startswith(RESULTS_PREFIX):
            return forward(request)
        if not self._dice.hit(self._probability):
            return forward(request)
        damage = self._dice.pick(DAMAGES)
        response = forward(request.with_body(damage(request.body, self._dice.seconds(1.0))))
        if response.ok:
            self._tally.add(KIND)
        return response
