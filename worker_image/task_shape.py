"""What a task looks like from outside: a module shaped like a LightningModule, with or without it.

Lightning is never imported. Its base class defines every hook as a stub, so a hook counts only when
somebody below that class wrote it.
"""

from typing import Any

from torch import nn

from spotgrad.errors import Unsupported
from worker_image.metrics import Meter

__all__ = ["capture_logs", "check_shape", "defines"]


def defines(task: nn.Module, name: str) -> bool:
    """Return whether the task has a ``name`` of its own."""
    own = getattr(task, name, None)
    return own is not None and getattr(own, "__qualname__", "") != f"LightningModule.{name}"


def check_shape(task: Any, path: str) -> nn.Module:
    """Return ``task`` if it can be trained.

    Raises:
        Unsupported: it is no module, has no ``training_step``, or steps its optimizer itself.
    """
    if not isinstance(task, nn.Module):
        raise Unsupported(f"task {path!r} returned a {type(task).__name__}, not a torch.nn.Module")
    if not defines(task, "training_step"):
        raise Unsupported(f"task {path!r}: {type(task).__name__} has no training_step(batch, idx)")
    if not getattr(task, "automatic_optimization", True):
        raise Unsupported(f"task {path!r}: automatic_optimization = False is not supported")
    return task


def capture_logs(task: nn.Module, meter: Meter) -> None:
    """Let ``self.log`` and ``self.log_dict`` reach ``meter``; a task's own methods stay.

    Outside a Trainer, Lightning's own methods warn and drop the value.
    """
    for name, method in (("log", meter.log), ("log_dict", meter.log_dict)):
        if not defines(task, name):
            setattr(task, name, method)
