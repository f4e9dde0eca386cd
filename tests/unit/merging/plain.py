"""The plain merge, a server copy and client copies by a weight each, for tests of the kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from spotgrad.merging.blocks import BLOCK_BYTES
from spotgrad.merging.kernel import follow
from spotgrad.protocol.ledger import plain_recipe
from spotgrad.protocol.recipe import SERVER, Recipe, client

Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Coefficients:
    """Weights of the server copy and of each client copy, in the batch's order."""

    server: float
    clients: tuple[float, ...]

    @property
    def recipe(self) -> Recipe:
        return plain_recipe(self.server, self.clients)


def coefficients_of(recipe: Recipe) -> Coefficients:
    """Read them off a recipe that needs no more than these."""
    weights = dict(recipe.weights(SERVER))
    server = weights.pop(SERVER)
    found = Coefficients(server, tuple(weights[client(j)] for j in range(len(weights))))
    if found.recipe != recipe:
        raise ValueError(f"not a plain recipe: {recipe}")
    return found


def merge_tensors(
    server: Tensors,
    clients: Sequence[Tensors],
    coefficients: Coefficients,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> dict[str, NDArray[Any]]:
    """Merge all tensors as parameters."""
    inputs = {SERVER: server} | {client(j): one for j, one in enumerate(clients)}
    return follow(coefficients.recipe, inputs, {}, block_bytes=block_bytes)[SERVER]
