"""Linear combinations of a recipe's inputs, so that a rule reads like its formula.

    server = server + (client(j) - server) * c1

Symbols, not tensors: a batch is the formula applied once per result, and what comes out is one set
of weights for one pass of the kernel. Invariant: weights come out in one order (objects, results,
base versions), so that equal combinations give equal recipes, and equal bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spotgrad.protocol.recipe import BASE, CLIENT, SERVER, Weights, base, client

__all__ = ["ZERO", "Combination", "base_of", "client_of", "object_of"]


@dataclass(frozen=True)
class Combination:
    """A sum of inputs, each by its weight."""

    terms: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: "Combination") -> "Combination":
        terms = dict(self.terms)
        for name, weight in other.terms.items():
            terms[name] = terms.get(name, 0.0) + weight
        return Combination(terms)

    def __sub__(self, other: "Combination") -> "Combination":
        return self + other * -1.0

    def __mul__(self, factor: float) -> "Combination":
        return Combination({name: weight * factor for name, weight in self.terms.items()})

    @property
    def weights(self) -> Weights:
        """Return the weights that are not zero, in the kernel's order."""
        return {
            name: self.terms[name] for name in sorted(self.terms, key=_place) if self.terms[name]
        }


ZERO = Combination()


def object_of(name: str) -> Combination:
    """Return the object of this name, as it is before the merge."""
    return Combination({name: 1.0})


def client_of(number: int) -> Combination:
    """Return the parameters of the batch's ``number``-th result."""
    return Combination({client(number): 1.0})


def base_of(number: int) -> Combination:
    """Return the version that the batch's ``number``-th result began from."""
    return Combination({base(number): 1.0})


def _place(name: str) -> tuple[int, int, str]:
    for rank, prefix in enumerate((CLIENT, BASE), start=2):
        if name.startswith(prefix):
            return rank, int(name.removeprefix(prefix)), ""
    return (0, 0, "") if name == SERVER else (1, 0, name)
