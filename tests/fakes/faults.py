"""What may go wrong between a caller and a store or queue, and when it next will."""

import threading
from dataclasses import dataclass
from enum import Enum, auto

from spotgrad.errors import StoreUnavailable


class Fault(Enum):
    """A kind of failure that a test orders in advance."""

    UNAVAILABLE = auto()
    """Nothing happens, and the caller learns nothing (SlowDown, a timeout on the way there)."""

    ANSWER_LOST = auto()
    """The write happens, but the caller sees a timeout."""

    CONFLICT = auto()
    """S3 answers 409 to a conditional write: nothing happens. moto never does so."""


class Crashed(BaseException):
    """The process died here. No ``except Exception`` and no ``except SpotgradError`` sees it."""


@dataclass
class _Order:
    fault: Fault
    operation: str | None
    key: str | None
    times: int


class Faults:
    """Orders of faults, each used up by the calls that it strikes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: list[_Order] = []

    def order(
        self,
        fault: Fault,
        *,
        operation: str | None = None,
        key: str | None = None,
        times: int = 1,
    ) -> None:
        """Let the next ``times`` calls fail; None stands for every operation, or every key."""
        with self._lock:
            self._orders.append(_Order(fault, operation, key, times))

    def strikes(self, fault: Fault, operation: str, key: str | None = None) -> bool:
        """Tell whether this call is struck, and count it off."""
        with self._lock:
            for order in self._orders:
                fits = order.operation in (None, operation) and order.key in (None, key)
                if order.fault is fault and order.times > 0 and fits:
                    order.times -= 1
                    return True
            return False

    def raise_unavailable(self, operation: str, key: str | None = None) -> None:
        if self.strikes(Fault.UNAVAILABLE, operation, key):
            raise StoreUnavailable(f"{_call(operation, key)}: injected SlowDown")

    def raise_answer_lost(self, operation: str, key: str | None = None) -> None:
        if self.strikes(Fault.ANSWER_LOST, operation, key):
            raise StoreUnavailable(f"{_call(operation, key)}: injected timeout after the effect")


def _call(operation: str, key: str | None) -> str:
    return operation if key is None else f"{operation} {key}"
