"""Some workers send the reverse of what they learned: which rules stand it, and at which price.

Ours, not the papers': it says when a robust window is worth its place beside the gate. A reversed
update is three times as long as the honest one, within what the gate lets in (four times the
largest); buffers stay honest, as nothing guards the integer ones. Not a clever attacker.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from benchmarks.reproduce.fleet import Fleet
from benchmarks.reproduce.run import Case, measure
from benchmarks.reproduce.study import Study
from benchmarks.reproduce.training import Images, Pipeline, Result, Version

SHARES: Final = (0.0, 0.1, 0.2)
"""Of all results."""
IN_FLIGHT: Final = 8
"""So many results make a window."""
LENGTH: Final = 3.0
"""Of a reversed update, in lengths of the honest one."""
EMA: Final = 0.98
RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "vc-asgd, var": {"rule": "vc-asgd", "alpha": "var"},
    "damped-delta": {"rule": "damped-delta", "ema": EMA},
    "fedbuff": {"rule": "fedbuff", "ema": EMA},
    "median": {"rule": "median", "ema": EMA},
    "trimmed-mean, trim 2": {"rule": "trimmed-mean", "trim": 2, "ema": EMA},
    "krum, bad 2, best 4": {"rule": "krum", "bad": 2, "best": 4, "ema": EMA},
    "centered-clipping, rounds 3": {"rule": "centered-clipping", "rounds": 3, "ema": EMA},
}
"""``fedbuff`` is the mean of the same window that the four below it judge."""


@dataclass
class Poisoned(Pipeline):
    """A pipeline of which ``share`` of all results, drawn by ``seed``, are reversed."""

    share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._draws = Random(self.seed)  # noqa: S311 - an experiment's draw, no secret

    def train(self, epoch: int, shard: int, start: Version) -> Result:
        """Train a shard, and reverse what was learned if the draw says so."""
        result = super().train(epoch, shard, start)
        return self._reversed(result) if self._draws.random() < self.share else result

    def _reversed(self, result: Result) -> Result:
        """Go as far as ``LENGTH`` says, in the direction opposite to the honest update."""
        roles, start = self.clients.roles, result.start.tensors
        bad = {
            name: start[name] - LENGTH * (tensor - start[name])
            for name, tensor in result.tensors.items()
            if roles[name] == "parameter"
        }
        return replace(result, tensors={**result.tensors, **bad})


def poison(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a run per rule and share of reversed results."""
    images = Images.of(study)
    for name, merge in RULES.items():
        for share in SHARES:
            spec = study.spec(merge, in_flight=IN_FLIGHT, epochs=study.short_epochs)
            case = Case(spec, images, Fleet(clients=IN_FLIGHT))
            yield f"{name} / {share}", measure(case, Poisoned(spec, images, share=share))
