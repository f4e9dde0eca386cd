"""A module's state <-> named arrays, without loss, and the role of each tensor.

Not the file format (``spotgrad.protocol.tensors``). Tied tensors are written under each of their
names, later parameters with the role ``alias``: every copy merges to the same bits, the file loads
anywhere, and a module that ties them when it is built is still tied after ``load``.
"""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from spotgrad.errors import Malformed, Unsupported
from spotgrad.protocol.result import Role

__all__ = ["Arrays", "arrays_of", "load", "roles_of", "to_numpy", "to_torch"]

Arrays = dict[str, NDArray[Any]]


def arrays_of(module: nn.Module) -> Arrays:
    """Return a contiguous array for each entry of the module's state, on the CPU.

    Raises:
        Unsupported: the state holds something that is no dense tensor.
    """
    return {name: to_numpy(name, tensor) for name, tensor in _state(module).items()}


def roles_of(module: nn.Module) -> dict[str, Role]:
    """Return what each entry of the module's state is: trained, frozen, a buffer, or a twin."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    seen: set[tuple[Any, ...]] = set()
    roles: dict[str, Role] = {}
    for name, tensor in _state(module).items():
        memory = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if name in parameters and not parameters[name].requires_grad:
            roles[name] = "frozen"
        elif name in parameters:
            roles[name] = "alias" if tensor.numel() and memory in seen else "parameter"
        else:
            roles[name] = "buffer"
        seen.add(memory)
    return roles


def load(module: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Copy ``arrays`` into the module, each cast to the dtype that the module has.

    Raises:
        Malformed: another set of names, or a tensor of another shape: the task has changed.
    """
    state = _state(module)
    if odd := sorted(state.keys() ^ arrays.keys()):
        side = "the model version" if odd[0] in arrays else "the task"
        raise Malformed(f"tensor {odd[0]!r} is in {side} alone: was the task's code changed?")
    for name, tensor in state.items():
        if tensor.shape != arrays[name].shape:
            raise Malformed(
                f"tensor {name!r}: the task has shape {tuple(tensor.shape)}, "
                f"the model version {arrays[name].shape}: were the task's args changed?"
            )
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(to_torch(arrays[name]))


def to_torch(array: NDArray[Any]) -> torch.Tensor:
    """Return a tensor with a copy of ``array``, bfloat16 included."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())  # a copy: arrays from a file are read-only


def to_numpy(name: str, tensor: torch.Tensor) -> NDArray[Any]:
    """Return a tensor as a contiguous array on the CPU, perhaps sharing its memory.

    Raises:
        Unsupported: numpy has no such dtype.
    """
    dense = tensor.detach().cpu().contiguous()
    if dense.dtype == torch.bfloat16:  # numpy has no bfloat16 of its own
        return dense.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    try:
        return dense.numpy()
    except (TypeError, RuntimeError) as error:
        raise Unsupported(f"tensor {name!r} ({tensor.dtype}): {error}") from error


def _state(module: nn.Module) -> dict[str, torch.Tensor]:
    state = module.state_dict()
    for name, value in state.items():
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            raise Unsupported(f"state {name!r} is no dense tensor: it cannot be merged")
    return state
