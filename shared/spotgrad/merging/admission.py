"""The gate before every merge: what a result must be to enter the model (the paper's validator).

``inspect`` looks at the tensors of one result, ``admit`` compares the length of its update with
those accepted lately, ``admit_loss`` what its worker measured on held-out samples. None of them
fetches, records or re-issues anything. Invariant: a reason is one line that names the tensor or
number, what was found and what was expected.

Why a gate at all (measured): ONE result with a NaN takes plain VC-ASGD from 0.77 to 0.095 for
ever, and so do 1% of results that are far too long.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotgrad.errors import Unsupported
from spotgrad.merging.blocks import BLOCK_BYTES, FLOATS, HALVES, flat, kind_of, spans
from spotgrad.protocol.job import NormRule
from spotgrad.protocol.result import Role

# Measured: 4 x the MEDIAN of the last 50 refused good results in half of the runs of a small job,
# and refused their deterministic re-run too. Against the LARGEST, the longest good update was 2.4
# times as long; the first results of a run differ most, so the rule waits for eight of them.
NORM_FACTOR = 4.0
REMEMBERED = 50
NORMS_NEEDED: Mapping[str, int] = {"largest": 8, "median": 2}

# The median is the sharper rule, and needs a second opinion: another result of the same subtask
# within twice the refused norm is admitted, which cured all 42 good subtasks that it had refused.
AGREEMENT = 2.0

# Measured on 256 held-out samples: it also keeps out flipped labels and stale or initial weights,
# and refuses about 1% of good results.
LOSS_FACTOR, LOSS_SLACK = 1.3, 0.05
LOSSES_NEEDED = 8

_BLOCK_ELEMENTS = BLOCK_BYTES // 8  # float64; fixed, so that a norm's bits are too

Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Inspection:
    """What ``inspect`` found: a reason to refuse the result, or the length of its update.

    ``update_norm`` is the L2 norm of client minus start over the float parameters; None when there
    is a problem, or no start to compare with.
    """

    problem: str | None
    update_norm: float | None


def inspect(
    server: Tensors | None,
    start: Tensors | None,
    client: Tensors,
    roles: Mapping[str, Role],
    samples: int,
) -> Inspection:
    """Return the first problem of a result, else the norm of its update.

    ``start`` is the version that the subtask began from. For the result of ``initialize`` there is
    neither ``server`` nor ``start``: its tensors must be of a kind that can be merged later and
    their values finite, and no norm comes back.
    """
    problem = None if server is None else _mismatch(server, client, roles, samples)
    problem = problem or _first(_unmergeable(name, tensor) for name, tensor in client.items())
    if problem or start is None:
        return Inspection(problem, None)
    norm = distance(start, client, roles)
    if not math.isfinite(norm):  # only float64 parameters beyond 1e154 get here
        return Inspection(f"the update's norm is {norm}: expected a finite number", None)
    return Inspection(None, norm)


def admit(
    update_norm: float,
    accepted_norms: Sequence[float],
    against: NormRule = "largest",
    refused_norms: Sequence[float] = (),
) -> str | None:
    """Return why an update is too long, or None; the first results of a job pass unmeasured.

    ``refused_norms`` are those of earlier results of the same subtask: under ``median`` a second
    one of about the same length is believed.
    """
    recent = accepted_norms[-REMEMBERED:]
    if against == "off" or len(recent) < NORMS_NEEDED[against]:
        return None
    usual = max(recent) if against == "largest" else median(recent)
    if usual == 0 or update_norm <= NORM_FACTOR * usual:
        return None
    if against == "median" and any(_agree(update_norm, other) for other in refused_norms):
        return None
    return (
        f"the update's norm is {update_norm:.6g}: expected at most {NORM_FACTOR * usual:.6g}"
        f" ({NORM_FACTOR:g} x the {against} of the last {len(recent)} accepted)"
    )


def admit_loss(loss: float | None, accepted_losses: Sequence[float]) -> str | None:
    """Return why a result's loss on held-out samples is too high, or None.

    The first eight results pass unmeasured, but have to say their loss.
    """
    if loss is None:
        return "it says no finite loss on held-out samples: its job asks for one"
    if len(accepted_losses) < LOSSES_NEEDED:
        return None
    usual = median(accepted_losses)
    most = LOSS_FACTOR * usual + LOSS_SLACK
    if loss <= most:
        return None
    return (
        f"its loss on held-out samples is {loss:.6g}: expected at most {most:.6g} "
        f"({LOSS_FACTOR:g} x the median of the last {len(accepted_losses)} accepted, "
        f"{usual:.6g}, + {LOSS_SLACK:g})"
    )


def remember(accepted: Sequence[float], newest: float) -> tuple[float, ...]:
    """Return what is known of the last 50 accepted results, the newest last."""
    return (*accepted, newest)[-REMEMBERED:]


def _agree(one: float, other: float) -> bool:
    return one <= AGREEMENT * other and other <= AGREEMENT * one


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem), None)


def _mismatch(
    server: Tensors, client: Tensors, roles: Mapping[str, Role], samples: int
) -> str | None:
    if type(samples) is not int or samples < 1:  # True is an int to isinstance, not to us
        return f"samples is {samples!r}: expected a positive integer"
    for name in client:
        if name not in server:
            return f"tensor '{name}' is unknown: expected the server's {len(server)} tensors"
    return _first(_misfit(name, tensor, client, roles) for name, tensor in server.items())


def _misfit(
    name: str, tensor: NDArray[Any], client: Tensors, roles: Mapping[str, Role]
) -> str | None:
    if name not in client:
        return f"tensor '{name}' is missing: expected shape {tensor.shape} of {tensor.dtype}"
    if name not in roles:
        return f"tensor '{name}' has no role: expected one for each tensor"
    found = client[name]
    if found.shape != tensor.shape:
        return f"tensor '{name}' has shape {found.shape}: expected {tensor.shape}"
    narrower = found.dtype in HALVES and tensor.dtype == np.float32
    if found.dtype != tensor.dtype and not narrower:
        also = ", bfloat16 or float16" if tensor.dtype == np.float32 else ""
        return f"tensor '{name}' has dtype {found.dtype}: expected {tensor.dtype}{also}"
    return None


def _unmergeable(name: str, tensor: NDArray[Any]) -> str | None:
    try:
        return _not_finite(name, tensor) if kind_of(name, tensor.dtype) == "float" else None
    except Unsupported as error:
        return str(error)


def _not_finite(name: str, tensor: NDArray[Any]) -> str | None:
    values = flat(tensor)
    for span in spans(tensor.size, _BLOCK_ELEMENTS):
        finite = np.isfinite(values[span])
        if not finite.all():
            place = span.start + int(np.argmin(finite))
            return (
                f"tensor '{name}' holds {values[place]} at element {place}: expected finite values"
            )
    return None


def distance(start: Tensors, client: Tensors, roles: Mapping[str, Role]) -> float:
    """Return the L2 distance of two copies over their float parameters."""
    scratch = np.empty(_BLOCK_ELEMENTS, np.float64)
    squares = 0.0
    for name, tensor in start.items():
        if tensor.dtype in FLOATS and roles[name] == "parameter":
            squares += _squared_distance(tensor, client[name], scratch)
    return math.sqrt(squares)


def _squared_distance(
    start: NDArray[Any], client: NDArray[Any], scratch: NDArray[np.float64]
) -> float:
    """Return the sum of (client - start)^2 in float64: 3e38 squared is far inside its range."""
    old, new, squares = flat(start), flat(client), 0.0
    for span in spans(start.size, scratch.size):
        block = scratch[: span.stop - span.start]
        np.copyto(block, new[span])
        with np.errstate(over="ignore"):  # the caller refuses an infinite norm
            np.subtract(block, old[span].astype(np.float64), out=block)
            np.multiply(block, block, out=block)
            squares += float(np.add.reduce(block))
    return squares
