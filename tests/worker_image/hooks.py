"""How a test looks into the tiny task: the task calls these as it trains."""

from collections.abc import Callable


def nothing(_: object) -> None:
    """Do nothing."""


on_batch: Callable[[int], None] = nothing
on_samples: Callable[[list[float]], None] = nothing
