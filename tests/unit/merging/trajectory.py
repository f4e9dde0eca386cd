"""The golden trajectories of VC-ASGD: inputs that are constants, so that the algorithm is pinned.

The files change on purpose only: ``python -m tests.unit.merging.trajectory`` writes them anew.
"""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.vc_asgd import recipe
from spotgrad.protocol.merge import VcAsgd
from tests.unit.merging.plain import coefficients_of, merge_tensors

EPOCHS, SHARDS, SIZE = 4, 6, 5
GOLDEN = Path(__file__).parents[2] / "golden"
ALPHAS: dict[str, float | Literal["var"]] = {"constant": 0.95, "var": "var"}


def first() -> NDArray[np.float32]:
    """The server copy that every trajectory begins from."""
    return np.array([place / 4 - 1 for place in range(SIZE)], np.float32)


def clients() -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Epoch and client copy of each result, in order of arrival: sixteenths in [-2, 2)."""
    for step in range(EPOCHS * SHARDS):
        values = [((37 * step + 11 * place) % 64 - 32) / 16 for place in range(SIZE)]
        yield step // SHARDS + 1, np.array(values, np.float32)


def single_merges(alpha: float | Literal["var"]) -> Iterator[NDArray[Any]]:
    """The server copy after each result, merged one by one."""
    merge, server = VcAsgd(alpha=alpha), {"w": first()}
    for epoch, client in clients():
        batch = [Contribution(epoch=epoch, staleness=0, samples=1)]
        found = coefficients_of(recipe(merge, Occasion(), batch))
        server = merge_tensors(server, [{"w": client}], found)
        yield server["w"]


def exact(alpha: float | Literal["var"]) -> Iterator[list[Fraction]]:
    """The same by the definition, in exact fractions: shares no code with what it checks."""
    server = [Fraction(float(value)) for value in first()]
    for epoch, client in clients():
        weight = Fraction(epoch, epoch + 1) if alpha == "var" else Fraction(alpha)
        server = [
            weight * own + (1 - weight) * Fraction(float(other))
            for own, other in zip(server, client, strict=True)
        ]
        yield server


def path(name: str) -> Path:
    """Where the trajectory called ``name`` is kept."""
    return GOLDEN / f"vc_asgd_{name}.json"


def document(name: str) -> dict[str, Any]:
    """What the file of trajectory ``name`` holds; hexadecimal floats show every bit."""
    steps = [[float(value).hex() for value in server] for server in single_merges(ALPHAS[name])]
    return {"rule": "vc-asgd", "alpha": ALPHAS[name], "server_after_each_result": steps}


if __name__ == "__main__":
    for trajectory in ALPHAS:
        path(trajectory).write_text(json.dumps(document(trajectory), indent=1) + "\n")
