"""The one kernel that turns a recipe and its inputs into tensors, block by block.

    out = input_1 * c_1;  out += input_2 * c_2;  out += input_3 * c_3;  ...

Not here: which recipe, which results, where bytes come from. Invariant: the result's bits depend on
the values and the recipe alone. Every element meets the same IEEE operations in the same order,
whatever the block size, the memory layout or the processor (a BLAS product would not).

Floats are computed in float32, float64 tensors in float64; 16-bit values are widened a block at a
time (numpy's own float16 arithmetic is slow software). Parameters and float buffers have weights of
their own. Integers (BatchNorm's counters) take the maximum over all copies of the model; booleans
and frozen tensors stay the server's: blending equal values may still move the last bit.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotgrad.errors import Malformed
from spotgrad.merging.blocks import BLOCK_BYTES, HALVES, flat, kind_of, spans
from spotgrad.merging.functions import Function, Measure, Numbers, added, function_of
from spotgrad.protocol.recipe import CLIENT, MERGED, SERVER, Blend, Recipe, Weights
from spotgrad.protocol.result import Role

Tensor = NDArray[Any]
Tensors = Mapping[str, Tensor]
Inputs = Mapping[str, Tensors]
"""Named tensors by the name of the input, as ``protocol.recipe`` explains."""

_WORD_BYTES = 8  # the widest element (float64, int64)
_MEASURED = BLOCK_BYTES // _WORD_BYTES  # elements; fixed, so that the bits of a sum are too


def follow(
    recipe: Recipe, inputs: Inputs, roles: Mapping[str, Role], *, block_bytes: int = BLOCK_BYTES
) -> dict[str, dict[str, Tensor]]:
    """Return each output of the recipe: new arrays, named and shaped as the server's.

    Inputs stay untouched. A copy of the model has all tensors and the server's dtypes; an output
    that is none has the float parameters alone. Beyond the returned arrays and, for a function, a
    block of each input, it holds two scratch blocks of ``block_bytes`` (at least 8).

    Raises:
        Malformed: an input is missing or lacks a tensor, or has it in another shape or kind of
            dtype; the recipe names an unknown function.
        Unsupported: a tensor of the server is neither float, integer nor boolean.
    """
    kernel = _Kernel(recipe, dict(inputs), roles, block_bytes)
    made: dict[str, dict[str, Tensor]] = {}
    for output, blend in recipe.outputs.items():
        made[output] = kernel.output(output, blend)
        if output == SERVER:
            kernel.inputs[MERGED] = made[output]
    return made


def to_master(tensors: Tensors) -> dict[str, Tensor]:
    """Return copies fit to be the server's: 16-bit floats as float32, all else in its own dtype.

    A bfloat16 master would lose the updates: 44% of the movement after 200 merges at alpha 0.99.
    """
    return {
        name: np.array(tensor, np.float32 if tensor.dtype in HALVES else tensor.dtype, order="C")
        for name, tensor in tensors.items()
    }


class _Kernel:
    """One recipe being followed."""

    def __init__(
        self,
        recipe: Recipe,
        inputs: dict[str, Tensors],
        roles: Mapping[str, Role],
        block_bytes: int,
    ) -> None:
        self.inputs = inputs
        self._recipe = recipe
        self._roles = roles
        self._words = max(1, block_bytes // _WORD_BYTES)
        self._total = np.empty(self._words, np.float64)
        self._term = np.empty(self._words, np.float64)
        self._functional: dict[str, dict[str, Tensor]] = {}
        self._of_model: Numbers | None = None

    def output(self, output: str, blend: Blend) -> dict[str, Tensor]:
        """Return one output, tensor by tensor."""
        made: dict[str, Tensor] = {}
        for name, tensor in self.inputs[SERVER].items():
            if self._is_parameter(name):
                made[name] = self._parameter(output, blend, name, tensor)
            elif blend.buffers is not None:
                made[name] = self._carried(name, tensor, blend.buffers)
        return made

    def _parameter(self, output: str, blend: Blend, name: str, tensor: Tensor) -> Tensor:
        dtype = tensor.dtype if blend.buffers is not None else _computed_in(tensor.dtype)
        if blend.parameters is not None:
            return self._blend(name, tensor.shape, dtype, blend.parameters)
        if name not in self._functional:
            self._functional[name] = self._by_function(name, tensor)
        return self._functional[name].pop(output)

    def _carried(self, name: str, tensor: Tensor, weights: Weights) -> Tensor:
        """Return what a copy of the model holds beside its parameters."""
        kind = kind_of(name, tensor.dtype)
        if kind == "boolean" or self._role(name) == "frozen":
            return np.array(tensor, order="C")
        if kind == "integer":
            return self._largest(tensor, self._copies(name))
        return self._blend(name, tensor.shape, tensor.dtype, weights)

    def _copies(self, name: str) -> list[Tensor]:
        """Return the tensor of every input that is a copy of the model; each client must be."""
        return [
            self._read(source, name)
            for source, tensors in self.inputs.items()
            if source.startswith(CLIENT) or name in tensors
        ]

    def _read(self, source: str, name: str) -> Tensor:
        """Return one input's tensor; the gate has checked it, a replay of a damaged bucket not."""
        if source not in self.inputs:
            raise Malformed(f"the recipe needs {source}, which is not there")
        server, tensors = self.inputs[SERVER][name], self.inputs[source]
        if name not in tensors:
            raise Malformed(f"tensor '{name}' is missing from {source}")
        tensor = tensors[name]
        if tensor.shape != server.shape:  # numpy would broadcast a short block silently
            raise Malformed(
                f"tensor '{name}' has shape {tensor.shape} in {source}: expected {server.shape}"
            )
        if kind_of(name, tensor.dtype) != kind_of(name, server.dtype):
            raise Malformed(
                f"tensor '{name}' has dtype {tensor.dtype} in {source}: expected {server.dtype}"
            )
        return tensor

    def _blend(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], weights: Weights
    ) -> Tensor:
        made, wide = np.zeros(shape, dtype), _computed_in(dtype)
        terms = [(flat(self._read(each, name)), wide.type(weights[each])) for each in weights]
        total, term, target = self._total.view(wide), self._term.view(wide), flat(made)
        for span in spans(made.size if terms else 0, term.size):
            length = span.stop - span.start
            # A 32- or 64-bit output accumulates in place; a 16-bit one is rounded once, at the end.
            block = target[span] if dtype == wide else total[:length]
            _scale(terms[0][0][span], terms[0][1], block)
            for other, weight in terms[1:]:
                _scale(other[span], weight, term[:length])
                np.add(block, term[:length], out=block)
            if dtype != wide:
                target[span] = block
        return made

    def _by_function(self, name: str, server: Tensor) -> dict[str, Tensor]:
        """Return what the recipe's function makes of one tensor, by output."""
        wide = _computed_in(server.dtype)
        function = function_of(str(self._recipe.function))
        numbers = self._numbers(function, name)
        made = {
            output: np.empty(server.shape, server.dtype if blend.buffers is not None else wide)
            for output, blend in self._recipe.outputs.items()
            if blend.parameters is None
        }
        for span, blocks in self._blocks(name, self._words):
            for output, block in function.apply(numbers, blocks).items():
                flat(made[output])[span] = block
        return made

    def _numbers(self, function: Function, name: str) -> Numbers:
        """Return what the function is told: the recipe's numbers, and what it has measured."""
        if self._of_model is None:
            names = [each for each in self.inputs[SERVER] if self._is_parameter(each)]
            self._of_model = self._measured(function.of_model, self._recipe.numbers, *names)
        numbers = {**self._recipe.numbers, **self._of_model}
        return {**numbers, **self._measured(function.of_tensor, numbers, name)}

    def _measured(self, measure: Measure | None, numbers: Numbers, *names: str) -> Numbers:
        sums: Numbers = {}
        if measure is None:
            return sums
        for name in names:
            for _, blocks in self._blocks(name, _MEASURED):
                sums = added(sums, measure(numbers, blocks))
        return sums

    def _blocks(self, name: str, words: int) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """Yield each block of a tensor: where it lies, and every input's part of it."""
        wide = _computed_in(self.inputs[SERVER][name].dtype)
        sources = {source: flat(self._read(source, name)) for source in self.inputs}
        for span in spans(self.inputs[SERVER][name].size, words):
            yield span, {source: values[span].astype(wide) for source, values in sources.items()}

    def _is_parameter(self, name: str) -> bool:
        kind, role = kind_of(name, self.inputs[SERVER][name].dtype), self._role(name)
        return kind == "float" and role in ("parameter", "alias")

    def _role(self, name: str) -> Role:
        return self._roles.get(name, "parameter")

    def _largest(self, server: Tensor, clients: Sequence[Tensor]) -> Tensor:
        made = np.array(server, order="C")
        target, others = flat(made), [flat(client) for client in clients]
        for span in spans(server.size, self._words):
            for other in others:
                np.maximum(target[span], other[span], out=target[span])
        return made


def _computed_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype in HALVES else dtype


def _scale(block: Tensor, weight: np.floating[Any], out: Tensor) -> None:
    """Write ``block * weight`` to ``out``, in the dtype of ``out``."""
    if block.dtype != out.dtype:
        np.copyto(out, block, casting="same_kind")
        block = out
    np.multiply(block, weight, out=out)
