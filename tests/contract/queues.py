"""The two ports of a queue in one: what every implementation offers."""

from typing import Protocol

from spotgrad.ports import TaskGauge, TaskQueue


class GaugedQueue(TaskQueue, TaskGauge, Protocol):
    """Sends, leases and counts."""
