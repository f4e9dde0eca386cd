"""The merge rules as their papers write them: one result at a time, in float64, without batches.

Shares no code with what it checks. ``buffers`` hold what the rule blends for BatchNorm.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.merging.stage import Result

Vector = NDArray[np.float64]


@dataclass
class Server:
    """The server copy, and what a rule keeps beside it."""

    w: Vector
    bn: Vector
    kept: dict[str, Any] = field(default_factory=dict)
    version: int = 0


@dataclass(frozen=True)
class Arrival:
    """A result with what is known about it when it is merged."""

    w: Vector
    bn: Vector
    start: Vector
    epoch: int
    staleness: int
    behind: int
    samples: int


Step = Callable[[Server, Arrival, Mapping[str, Any], int], None]


def follow(
    rule: str, options: Mapping[str, Any], results: Sequence[Result], first: Any, k: int
) -> Iterator[Server]:
    """Yield the server after each result; the object is the same one each time."""
    server = Server(first["w"].astype(np.float64), first["bn"].astype(np.float64))
    versions = [(0, server.w.copy())]  # after 0, 1, 2 ... results
    for step, one in enumerate(results):
        number, start = versions[one.began]
        arrival = Arrival(
            w=one.tensors["w"].astype(np.float64),
            bn=one.tensors["bn"].astype(np.float64),
            start=start,
            epoch=one.epoch,
            staleness=step - one.began,
            behind=server.version - number,
            samples=one.samples,
        )
        STEPS[rule](server, arrival, options, k)
        versions.append((server.version, server.w.copy()))
        yield server


def _pull(server: Server, one: Arrival, alpha: float) -> None:
    server.w = alpha * server.w + (1 - alpha) * one.w
    server.bn = alpha * server.bn + (1 - alpha) * one.bn
    server.version += 1


def _blend_buffers(server: Server, one: Arrival) -> None:
    share = 1 / (1 + one.staleness)
    server.bn = server.bn + share * (one.bn - server.bn)
    server.version += 1


def _alpha(options: Mapping[str, Any], epoch: int, default: Any) -> float:
    alpha = options.get("alpha", default)
    return epoch / (epoch + 1) if alpha == "var" else float(alpha)


def vc_asgd(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    del k
    _pull(server, one, _alpha(options, one.epoch, "var"))


def fedasync(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    del k
    mixing = 1 - _alpha(options, one.epoch, 0.4)
    if options.get("decay") == "hinge":
        beyond = one.staleness - options["after"]
        mixing *= 1 / (options["slope"] * beyond + 1) if beyond > 0 else 1
    else:
        mixing *= (1 + one.staleness) ** -0.5
    _pull(server, one, 1 - mixing)


def easgd(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    _pull(server, one, 1 - options.get("beta", 0.9) / k)


def delta(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    server.w = server.w + options.get("eta", 1 / k) * (one.w - one.start)
    _blend_buffers(server, one)


def damped_delta(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    m = k if options.get("m") == "in-flight" else 1 + one.staleness
    add = min(2 / m, 1 - 1 / m)
    server.w = server.w + (one.w - server.w) / m + add * (one.w - one.start)
    server.bn = server.bn + (one.bn - server.bn) / m
    server.version += 1


def dc_asgd(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    g = one.start - one.w
    strength = 0.04
    if options.get("adaptive"):
        square = 0.95 * server.kept.get("square", 0.0) + 0.05 * g * g
        server.kept["square"] = square
        strength = 2 / np.sqrt(square + 1e-7)
    eta = options.get("eta", 1 / k)
    server.w = server.w - eta * (g + strength * g * g * (server.w - one.start))
    _blend_buffers(server, one)


def delayed_nesterov(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    """In the paper's own letters, with gradients that point the other way."""
    kept, n = server.kept, options.get("every", max(k, 8))
    beta, epsilon, c = 0.9, 0.7, options.get("spread", 0) / n
    g = one.start - one.w
    kept["D"], kept["t"] = kept.get("D", 0) + g, kept.get("t", -1) + 1
    m = kept.get("m", np.zeros_like(g))
    if (kept["t"] + 1) % n == 0:
        kept["m"] = m = beta * m + kept["D"] / n
        server.w = server.w - epsilon * ((1 - c * n + c) * beta * m + g / n)
        kept["D"] = 0
    else:
        server.w = server.w - epsilon * (c * beta * m + g / n)
    _blend_buffers(server, one)


def fedbuff(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    window: list[tuple[Arrival, float, float]] = server.kept.setdefault("window", [])
    n = float(one.samples) if options.get("weigh") == "samples" else 1.0
    window.append((one, n, (1 + one.behind) ** -options.get("exponent", 0.5)))
    if len(window) < options.get("size", k):
        return
    mass = sum(n for _, n, _ in window)
    server.w = server.w + sum(n * s * (each.w - each.start) for each, n, s in window) / mass
    server.bn = np.asarray(sum(n * each.bn for each, n, _ in window) / mass)
    server.version += 1
    window.clear()


def fedavg(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    """Six results to a round; a late one's copy is moved along with the server first."""
    del options, k
    window: list[Arrival] = server.kept.setdefault("window", [])
    window.append(one)
    if len(window) < 6:
        return
    samples = [each.samples for each in window]
    copies = [each.w if each.behind == 0 else each.w + server.w - each.start for each in window]
    server.w = np.average(copies, axis=0, weights=samples)
    server.bn = np.average([each.bn for each in window], axis=0, weights=samples)
    server.version += 1
    window.clear()


def diloco(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    """In the paper's own letters, with outer gradients that point the other way."""
    del k
    window: list[Arrival] = server.kept.setdefault("window", [])
    window.append(one)
    if len(window) < 6:
        return
    mass = [each.samples if options.get("weigh") == "samples" else 1 for each in window]
    outer = np.average([each.start - each.w for each in window], axis=0, weights=mass)
    mu = options.get("momentum", 0.9)
    m = server.kept["m"] = mu * server.kept.get("m", 0.0) + outer
    server.w = server.w - options.get("eta", 0.7) * (outer + mu * m)
    server.bn = np.average([each.bn for each in window], axis=0, weights=mass)
    server.version += 1
    window.clear()


def dedloc(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
    """What comes in is a gradient; LAMB in its paper's letters, without decay."""
    del k
    window: list[Arrival] = server.kept.setdefault("window", [])
    window.append(one)
    if len(window) < 6:
        return
    mass = [each.samples for each in window]
    g = np.average([each.w for each in window], axis=0, weights=mass)
    optimizer = options["optimizer"]
    t = server.kept["t"] = server.kept.get("t", 0) + 1
    if optimizer["name"] == "sgd":
        update = server.kept["m"] = optimizer["momentum"] * server.kept.get("m", 0.0) + g
    else:
        m = server.kept["m"] = 0.9 * server.kept.get("m", 0.0) + 0.1 * g
        v = server.kept["v"] = 0.999 * server.kept.get("v", 0.0) + 0.001 * g**2
        r = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + optimizer["eps"])
        update = np.linalg.norm(server.w) / np.linalg.norm(r) * r
    server.w = server.w - optimizer["lr"] * update
    server.bn = np.average([each.bn for each in window], axis=0, weights=mass)
    server.version += 1
    window.clear()


def _windowed(aggregate: Callable[..., tuple[Vector, Vector]], least: int) -> Step:
    """``aggregate`` of updates, buffers, what is kept and options gives the step and buffers."""

    def step(server: Server, one: Arrival, options: Mapping[str, Any], k: int) -> None:
        window: list[Arrival] = server.kept.setdefault("window", [])
        window.append(one)
        if len(window) < options.get("size", max(k, least)):
            return
        u, bn = np.array([a.w - a.start for a in window]), np.array([a.bn for a in window])
        moved, server.bn = aggregate(u, bn, server, options)
        server.w = server.w + options.get("eta", 1.0) * moved
        server.version += 1
        window.clear()

    return step


def median(u: Any, bn: Any, server: Server, options: Any) -> tuple[Vector, Vector]:
    del server, options
    return np.median(u, axis=0), np.median(bn, axis=0)


def trimmed_mean(u: Any, bn: Any, server: Server, options: Any) -> tuple[Vector, Vector]:
    del server
    b = options.get("trim", 1)
    return tuple(np.sort(x, axis=0)[b : len(x) - b].mean(axis=0) for x in (u, bn))


def krum(u: Any, bn: Any, server: Server, options: Any) -> tuple[Vector, Vector]:
    del server
    away = ((u[:, None] - u[None]) ** 2).sum(axis=2)
    near = len(u) - options.get("bad", 1) - 2
    scores = np.sort(away, axis=1)[:, 1 : near + 1].sum(axis=1)  # without itself
    chosen = np.argsort(scores, kind="stable")[: options.get("best", 1)]
    return u[chosen].mean(axis=0), bn[chosen].mean(axis=0)


def centered_clipping(u: Any, bn: Any, server: Server, options: Any) -> tuple[Vector, Vector]:
    v, tau, buffers = server.kept.get("v", np.zeros_like(u[0])), options.get("radius"), server.bn
    for _ in range(options.get("rounds", 1)):
        away = np.linalg.norm(u - v, axis=1)
        tau = np.median(away) if tau is None else tau
        clip = np.minimum(1, tau / away)[:, None] / len(u)
        v, buffers = v + ((u - v) * clip).sum(axis=0), buffers + ((bn - buffers) * clip).sum(axis=0)
    server.kept["v"] = v
    return v, buffers


STEPS: dict[str, Step] = {
    "median": _windowed(median, 3),
    "trimmed-mean": _windowed(trimmed_mean, 3),
    "krum": _windowed(krum, 5),
    "centered-clipping": _windowed(centered_clipping, 3),
    "vc-asgd": vc_asgd,
    "fedasync": fedasync,
    "easgd": easgd,
    "delta": delta,
    "damped-delta": damped_delta,
    "dc-asgd": dc_asgd,
    "delayed-nesterov": delayed_nesterov,
    "fedbuff": fedbuff,
    "fedavg": fedavg,
    "diloco": diloco,
    "dedloc": dedloc,
}
