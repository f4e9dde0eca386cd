"""A merge as numbers: which objects it writes, and what of. Rules write it, the kernel follows it.

Not the rule, and no tensors; the ledger keeps it, so that a replay needs no rule. Inputs go by
name: ``server`` and whatever else the head's ``objects`` hold (``momentum``, ``buffer``, ``ema``);
``client-<n>`` and ``base-<n>`` for the batch's n-th result (from 0, in order of arrival) and the
version that it began from; ``merged`` for the server copy that this recipe makes, which the outputs
after it may use. Invariant: weights are added in the order in which they stand.
"""

from typing import Literal

from pydantic import Field

from spotgrad.protocol.wire import Finite, Part

SERVER = "server"
MERGED = "merged"
EMA = "ema"
CLIENT, BASE = "client-", "base-"
WINDOW = "window"
"""In the tally of a rule that collects results: how many wait beside the server copy."""

Closing = Literal["round", "rest"]
"""What of a synchronous round is over: all of it, or what was redriven after the last one."""
Weights = dict[str, Finite]
"""How much of each input."""


def client(number: int) -> str:
    """Return the name of the batch's ``number``-th result among the inputs."""
    return f"{CLIENT}{number}"


def base(number: int) -> str:
    """Return the name of the version that the batch's ``number``-th result began from."""
    return f"{BASE}{number}"


class Blend(Part):
    """What one output is made of, by what a tensor is."""

    parameters: Weights | None = None
    """Float parameters; nothing where the recipe's ``function`` makes them."""
    buffers: Weights | None = None
    """Float buffers, always convex: a running variance must not turn negative. Nothing for an
    output that is no copy of the model (a momentum): it holds the float parameters alone."""


class Recipe(Part):
    """What a batch does to a job's objects."""

    outputs: dict[str, Blend] = Field(default_factory=dict)
    """Objects that are written. Without ``server`` there is no new version."""
    drops: tuple[str, ...] = ()
    """Objects that the head stops naming: the next merge finds none, which counts as zeros."""
    function: str | None = None
    """The block function that makes parameters no linear rule can."""
    numbers: dict[str, tuple[Finite, ...]] = Field(default_factory=dict)
    """What the function is told."""
    from_bases: bool = False
    """Whether the function also takes the versions that the results began from."""
    tally: dict[str, Finite] = Field(default_factory=dict)
    """What the rule remembers until the next batch; it stands in the head."""

    def weights(self, output: str) -> Weights:
        """Return the weights of an output's parameters; nothing when it is not linear."""
        blend = self.outputs.get(output)
        return {} if blend is None or blend.parameters is None else blend.parameters

    @property
    def inputs(self) -> frozenset[str]:
        """Return the inputs that any output is made of, those of the function left out."""
        blends = self.outputs.values()
        kinds = [kind for blend in blends for kind in (blend.parameters, blend.buffers) if kind]
        return frozenset(name for kind in kinds for name in kind) - {MERGED}

    def needs_base(self, number: int) -> bool:
        """Return whether the version that the ``number``-th result began from is an input."""
        return self.from_bases or base(number) in self.inputs
