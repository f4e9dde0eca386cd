"""A nested state (``state_dict`` of optimizers and schedulers) <-> JSON and named tensors.

Nothing is pickled, so only plain containers, numbers, text and tensors have a place; anything else
is refused. Invariant: ``join(*split(tree))`` is ``tree`` again, bit for bit, dtypes included.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from pydantic import JsonValue

from spotgrad.errors import Malformed, Unsupported
from worker_image.state import Arrays, to_numpy, to_torch

__all__ = ["join", "split"]

_MAPPINGS: Final[dict[str, Callable[[Any], Any]]] = {"dict": dict, "counter": Counter}
_SEQUENCES: Final[dict[str, Callable[[Any], Any]]] = {"list": list, "tuple": tuple}


def split(tree: Any) -> tuple[JsonValue, Arrays]:
    """Return the tree with a name in place of each tensor, and the tensors by name.

    Raises:
        Unsupported: it holds something else than plain data.
    """
    arrays: Arrays = {}
    return _plain(tree, arrays), arrays


def join(plain: JsonValue, arrays: Mapping[str, Any]) -> Any:
    """Return what ``split`` took apart.

    Raises:
        Malformed: it was not ``split`` that wrote this.
    """
    if plain is None or isinstance(plain, (bool, int, float, str)):
        return plain
    if not isinstance(plain, dict) or len(plain) != 1:
        raise Malformed("state: neither a value nor a mapping of one form to its content")
    ((form, content),) = plain.items()
    try:
        return _joined(form, content, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"state: {form!r} is not what was written: {error!r}") from error


def _joined(form: str, content: Any, arrays: Mapping[str, Any]) -> Any:
    if form == "tensor":
        return to_torch(arrays[content])
    if form == "float":
        return float(content)
    if form in _SEQUENCES:
        return _SEQUENCES[form](join(each, arrays) for each in content)
    return _MAPPINGS[form]({key: join(value, arrays) for key, value in content})


def _plain(value: Any, arrays: Arrays) -> JsonValue:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, torch.Tensor):
        name = f"{len(arrays):06d}"
        arrays[name] = to_numpy(name, value.detach()).copy()  # training goes on in that memory
        return {"tensor": name}
    return _container(value, arrays)


def _container(value: Any, arrays: Arrays) -> JsonValue:
    for form, kind in _SEQUENCES.items():
        if type(value) is kind:
            return {form: [_plain(each, arrays) for each in value]}
    if isinstance(value, dict) and all(isinstance(key, (int, str)) for key in value):
        form = "counter" if isinstance(value, Counter) else "dict"
        return {form: [[key, _plain(each, arrays)] for key, each in value.items()]}
    raise Unsupported(f"state: a {type(value).__name__} cannot be saved: no partial is possible")
