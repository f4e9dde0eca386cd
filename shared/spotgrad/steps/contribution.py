"""What a training result contributes to a merge: its tensors as a rule wants them.

Client parameters stand in the file as they are; a gradient is encoded and is decoded here, the same
way when it is merged and when a version is rebuilt. Reads nothing and judges nothing.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotgrad.merging.admission import Inspection, inspect
from spotgrad.protocol.gradient_codec import decode
from spotgrad.protocol.result import ResultMetadata, Role, Trained
from spotgrad.protocol.tensors import TensorFile

Tensors = Mapping[str, NDArray[Any]]


def contribution(metadata: ResultMetadata, file: TensorFile) -> Tensors:
    """Return the tensors of a result, a gradient as float32.

    Raises:
        Malformed: the gradient is not encoded as its header says.
    """
    outcome = metadata.outcome
    if not isinstance(outcome, Trained) or outcome.gradient is None:
        return file.tensors
    return decode(file.tensors)


def inspect_gradient(
    version: Tensors, roles: Mapping[str, Role], gradient: Tensors, samples: int
) -> Inspection:
    """Return the first problem of a gradient at ``version``, else its norm.

    ``roles`` are the version's own: what a worker says of them decides nothing.
    """
    expected = {
        name: _nothing(tensor) if roles.get(name, "parameter") in ("parameter", "alias") else tensor
        for name, tensor in version.items()
        if roles.get(name) != "frozen"
    }
    return inspect(expected, expected, gradient, roles, samples)


def _nothing(tensor: NDArray[Any]) -> NDArray[Any]:
    """Return zeros of the tensor's shape, which take no memory."""
    return np.broadcast_to(np.zeros((), np.float32), tensor.shape)
