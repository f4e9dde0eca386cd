"""How a test looks into the tiny task: the task calls ``on_batch`` as it trains."""

from collections.abc import Callable


def nothing(_: int) -> None:
    """Do nothing."""


on_batch: Callable[[int], None] = nothing
