"""Robust windows: K results wait beside the model, then become one step by a rule none can sway.

    u_i = W_ci - W_start_i                       each result's update waits as ``waiting_<i>``
    W <- W + eta A(u_1 ... u_K)                  every K-th result, and the last of the job

A is the rule's aggregate. Float buffers wait beside the update, and become the aggregate of those
that came in: they are no differences, and no A leaves the range of what it is given. Not A itself.
Invariant: no window closes with fewer results than the rule needs; at the job's end such a rest
stays waiting. The results of a batch and those that waited give the same bits.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotgrad.merging.combination import base_of, client_of
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.protocol.merge_windows import Window
from spotgrad.protocol.recipe import (
    SERVER,
    WAITING,
    WINDOW,
    Blend,
    Recipe,
    Weights,
    base,
    client,
    waiting,
)

Tensor = NDArray[Any]
Numbers = Mapping[str, tuple[float, ...]]
Blocks = Mapping[str, Tensor]
Aggregate = Callable[[Numbers, int, Sequence[Tensor]], Tensor]
"""Told the numbers, which window of the batch it is, and one block of each of its results."""


def window_recipe(
    merge: Window, occasion: Occasion, batch: Sequence[Contribution], **numbers: tuple[float, ...]
) -> Recipe:
    """Return the recipe that lets the batch wait or, where a window is full, takes the step."""
    waits = int(occasion.tally.get(WINDOW, 0))
    sizes, rest = _windows(merge, occasion, waits + len(batch))
    first = len(batch) - min(rest, len(batch))  # of the batch's results that will wait
    places = range(0 if sizes else waits, rest)
    late = zip(places, range(first, len(batch)), strict=True)
    outputs = {waiting(place): _waiting(number) for place, number in late}
    tally = {WINDOW: float(rest)}
    if not sizes:
        return Recipe(outputs=outputs, tally=tally)
    server = Blend(buffers=_buffers(merge, first - 1))
    gone = [name for name in sorted(occasion.objects) if name.startswith(WAITING)]
    told = {"windows": tuple(map(float, sizes)), "waiting": (float(waits),), "eta": (merge.eta,)}
    return Recipe(
        outputs={SERVER: server} | outputs,
        drops=tuple(name for name in gone if name not in outputs),
        function=merge.rule,
        numbers=told | numbers,
        makes_buffers=merge.buffers == "blend",
        from_bases=True,
        tally=tally,
    )


def _windows(merge: Window, occasion: Occasion, results: int) -> tuple[list[int], int]:
    """Return the sizes of the windows that close, and how many results wait afterwards."""
    size = merge.window(occasion.in_flight)
    full, rest = divmod(results, size)
    if occasion.last and rest >= merge.least:
        return [size] * full + [rest], 0
    return [size] * full, rest


def _waiting(number: int) -> Blend:
    came = client_of(number)
    return Blend(parameters=(came - base_of(number)).weights, buffers=came.weights)


def _buffers(merge: Window, latest: int) -> Weights:
    """Return the weights of the server's float buffers; none where the function makes them."""
    if merge.buffers == "latest":
        return {client(latest): 1.0}
    return {SERVER: 1.0} if merge.buffers == "keep" else {}


def stepping(numbers: Numbers, blocks: Blocks, aggregate: Aggregate) -> Blocks:
    """Return the server copy's block, one step for each window that closes."""
    server = blocks[SERVER].copy()
    eta = server.dtype.type(numbers["eta"][0])
    for number, window in enumerate(split(numbers, updates(numbers, blocks))):
        server += eta * aggregate(numbers, number, window)
    return {SERVER: server}


def carrying(numbers: Numbers, blocks: Blocks, aggregate: Aggregate) -> Blocks:
    """Return the block of a float buffer: the last window's aggregate."""
    *_, (number, window) = enumerate(split(numbers, carried(numbers, blocks)))
    return {SERVER: aggregate(numbers, number, window)}


def carried(numbers: Numbers, blocks: Blocks) -> list[Tensor]:
    """Return one block of the float buffer of every result in a window, in order of arrival."""
    found = [blocks[waiting(place)] for place in range(int(numbers["waiting"][0]))]
    return found + [blocks[client(number)] for number in range(_taken(numbers) - len(found))]


def updates(numbers: Numbers, blocks: Blocks) -> list[Tensor]:
    """Return one block of the update of every result in a window, in order of arrival."""
    found = [blocks[waiting(place)] for place in range(int(numbers["waiting"][0]))]
    fresh = range(_taken(numbers) - len(found))
    with np.errstate(over="ignore"):  # an infinite one is for the aggregate to leave out
        return found + [blocks[client(number)] - blocks[base(number)] for number in fresh]


def split(numbers: Numbers, results: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield what belongs to each window."""
    first = 0
    for size in map(int, numbers["windows"]):
        yield results[first : first + size]
        first += size


def _taken(numbers: Numbers) -> int:
    return sum(map(int, numbers["windows"]))
