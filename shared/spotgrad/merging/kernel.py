"""The one kernel that applies a rule's coefficients to tensors, block by block.

    out = server * c_s;  out += client_1 * c_1;  out += client_2 * c_2;  ...

Not here: which coefficients, which results, where bytes come from. Invariant: the result's bits
depend on the values alone. Every element meets the same IEEE multiplications and additions in the
same order, whatever the block size, the memory layout or the processor (a BLAS product would not).

Floats are blended in float32, float64 tensors in float64; 16-bit values are widened a block at a
time (numpy's own float16 arithmetic is slow software). Integers (BatchNorm's counters) take the
maximum over server and clients; booleans stay the server's. Names mean nothing: ``running_var`` is
not clamped at zero, since convex coefficients cannot make it negative from inputs that are not.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.merging.blocks import BLOCK_BYTES, HALVES, flat, kind_of, spans
from spotgrad.merging.coefficients import Coefficients

_WORD_BYTES = 8  # the widest element (float64, int64)


class _Scratch:
    """Two blocks of memory, viewed as whatever type the tensor at hand is computed in."""

    def __init__(self, block_bytes: int) -> None:
        words = max(1, block_bytes // _WORD_BYTES)
        self._total = np.empty(words, np.float64)
        self._term = np.empty(words, np.float64)

    def total(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        return self._total.view(dtype)

    def term(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        return self._term.view(dtype)


def merge_tensors(
    server: Mapping[str, NDArray[Any]],
    clients: Sequence[Mapping[str, NDArray[Any]]],
    coefficients: Coefficients,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> dict[str, NDArray[Any]]:
    """Return new arrays, named, ordered, shaped and typed as the server's; inputs stay untouched.

    Beyond the returned arrays it holds two scratch blocks of ``block_bytes`` (at least 8).

    Raises:
        Malformed: a client lacks a tensor, or has it in another shape or kind of dtype.
        Unsupported: a tensor of the server is neither float, integer nor boolean.
        ValueError: there is not one coefficient per client.
    """
    if len(clients) != len(coefficients.clients):
        raise ValueError(f"{len(clients)} clients, but {len(coefficients.clients)} coefficients")
    scratch = _Scratch(block_bytes)
    merged: dict[str, NDArray[Any]] = {}
    for name, tensor in server.items():
        copies = [_copy_of(name, tensor, client) for client in clients]
        merged[name] = _merge(name, tensor, copies, coefficients, scratch)
    return merged


def to_master(tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return copies fit to be the server's: 16-bit floats as float32, all else in its own dtype.

    A bfloat16 master would lose the updates: 44% of the movement after 200 merges at alpha 0.99.
    """
    return {
        name: np.array(tensor, np.float32 if tensor.dtype in HALVES else tensor.dtype, order="C")
        for name, tensor in tensors.items()
    }


def _copy_of(name: str, tensor: NDArray[Any], client: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the client's copy; the gate has checked it, a replay of a damaged bucket has not."""
    if name not in client:
        raise Malformed(f"tensor '{name}' is missing from a client copy")
    copy = client[name]
    if copy.shape != tensor.shape:  # numpy would broadcast a short block silently
        raise Malformed(
            f"tensor '{name}' has shape {copy.shape} in a client copy: expected {tensor.shape}"
        )
    if kind_of(name, copy.dtype) != kind_of(name, tensor.dtype):
        raise Malformed(
            f"tensor '{name}' has dtype {copy.dtype} in a client copy: expected {tensor.dtype}"
        )
    return copy


def _merge(
    name: str,
    server: NDArray[Any],
    clients: Sequence[NDArray[Any]],
    coefficients: Coefficients,
    scratch: _Scratch,
) -> NDArray[Any]:
    kind = kind_of(name, server.dtype)
    if kind == "float":
        return _blend(server, clients, coefficients, scratch)
    if kind == "integer":
        return _largest(server, clients, scratch)
    return np.array(server, order="C")


def _blend(
    server: NDArray[Any],
    clients: Sequence[NDArray[Any]],
    coefficients: Coefficients,
    scratch: _Scratch,
) -> NDArray[Any]:
    merged = np.empty(server.shape, server.dtype)
    dtype = np.dtype(np.float32) if server.dtype in HALVES else server.dtype
    total, term = scratch.total(dtype), scratch.term(dtype)
    own, target = flat(server), flat(merged)
    others = [
        (flat(client), dtype.type(weight))
        for client, weight in zip(clients, coefficients.clients, strict=True)
    ]
    for span in spans(server.size, term.size):
        length = span.stop - span.start
        # A 32- or 64-bit master accumulates in place; a 16-bit one is rounded once, at the end.
        block = target[span] if server.dtype == dtype else total[:length]
        _scale(own[span], dtype.type(coefficients.server), block)
        for other, weight in others:
            _scale(other[span], weight, term[:length])
            np.add(block, term[:length], out=block)
        if server.dtype != dtype:
            target[span] = block
    return merged


def _scale(block: NDArray[Any], weight: np.floating[Any], out: NDArray[Any]) -> None:
    """Write ``block * weight`` to ``out``, in the dtype of ``out``."""
    if block.dtype != out.dtype:
        np.copyto(out, block, casting="same_kind")
        block = out
    np.multiply(block, weight, out=out)


def _largest(
    server: NDArray[Any], clients: Sequence[NDArray[Any]], scratch: _Scratch
) -> NDArray[Any]:
    merged = np.array(server, order="C")
    target, others = flat(merged), [flat(client) for client in clients]
    for span in spans(server.size, scratch.term(server.dtype).size):
        for other in others:
            np.maximum(target[span], other[span], out=target[span])
    return merged
