"""The merge kernel beside plain numpy, on the same inputs in turn.

Run ``python benchmarks/merge_kernel.py``. Plain numpy is ``server = a * server + (1 - a) * client``
for one result after the other. Ratios are medians; absolute milliseconds depend on the machine and
on who else uses it.
"""

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from spotgrad.merging.kernel import follow
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.vc_asgd import recipe
from spotgrad.protocol.merge import VcAsgd
from spotgrad.protocol.recipe import SERVER, client

ROUNDS = 7
ALPHA = 0.95
CASES = [(4_700_000, 1), (25_000_000, 1), (4_700_000, 10), (25_000_000, 10)]


def plain(server: NDArray[Any], clients: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Merge as one would write it down."""
    for each in clients:
        server = np.float32(ALPHA) * server + np.float32(1 - ALPHA) * each.astype(
            np.float32, copy=False
        )
    return server


def kernel(server: NDArray[Any], clients: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Merge the whole batch in one pass."""
    batch = [Contribution(1, staleness, 1) for staleness, _ in enumerate(clients)]
    blend = recipe(VcAsgd(alpha=ALPHA), Occasion(), batch)
    inputs = {SERVER: {"w": server}} | {client(j): {"w": one} for j, one in enumerate(clients)}
    return follow(blend, inputs, {})[SERVER]["w"]


def milliseconds(run: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = perf_counter()
    run()
    return 1000 * (perf_counter() - begin)


def compare(parameters: int, count: int, dtype: np.dtype[Any]) -> str:
    """Time both in turn and return one row of the table."""
    draw = np.random.default_rng(0)
    server = draw.standard_normal(parameters, dtype=np.float32)
    clients = [
        draw.standard_normal(parameters, dtype=np.float32).astype(dtype) for _ in range(count)
    ]
    rounds = [
        (
            milliseconds(lambda: plain(server, clients)),
            milliseconds(lambda: kernel(server, clients)),
        )
        for _ in range(ROUNDS + 1)  # the first warms up
    ][1:]
    slow, fast = (median(column) for column in zip(*rounds, strict=True))
    ratio = median(one / other for one, other in rounds)
    return f"{parameters:>11,} {count:>7} {dtype!s:>9} {slow:>9.1f} {fast:>9.1f} {ratio:>7.2f}x"


def main() -> None:
    """Print the table."""
    print(
        f"{'parameters':>11} {'results':>7} {'clients':>9}"
        f" {'plain ms':>9} {'kernel ms':>9} {'ratio':>8}"
    )
    for parameters, count in CASES:
        for dtype in (np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)):
            print(compare(parameters, count, dtype), flush=True)


if __name__ == "__main__":
    main()
