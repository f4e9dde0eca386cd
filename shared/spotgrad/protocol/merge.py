"""The merge section of a job file: one model per rule, each with its own parameters.

Not the arithmetic (``spotgrad.merging``). ``alpha`` always weighs the SERVER copy. What needs more
than the section itself, the subtasks in flight (k) for one, is checked by ``why_not``.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from spotgrad.protocol.scalars import Count, Duration, Number, Share, lasts
from spotgrad.protocol.wire import Part

Alpha = Share

STABLE_ETA = 1.5
"""Adding whole updates of k subtasks in flight is stable up to about eta = 1.5 / k (measured: above
it accuracy fell from 0.85 to 0.17 at eta = 1, k = 16)."""


QUORUM = 0.8
"""The share of an epoch's subtasks that a round past its deadline waits for, unless it is said."""


class Rule(Part):
    """What every rule lets one choose."""

    rule: str
    buffers: Literal["blend", "latest", "keep"] = "blend"
    """Float buffers (BatchNorm's statistics): blended as the rule says, the latest result's, or
    those that the model was initialized with."""
    ema: Share | None = None
    """Also publish an exponential average of the server copy, with this decay per result; it is
    what is evaluated and exported."""

    @property
    def starts_at_epoch(self) -> bool:
        """Return whether subtasks begin from the version that stood when their epoch began."""
        return False

    @property
    def in_rounds(self) -> bool:
        """Return whether an epoch's results are merged all at once."""
        return False


class Blending(Rule):
    """A rule that blends client copies into the server copy and needs no base version."""

    start: Literal["live", "epoch"] = "live"
    """Subtasks begin from the latest version, or from the one that stood when their epoch began."""

    @property
    def starts_at_epoch(self) -> bool:
        """Return whether subtasks begin from the version that stood when their epoch began."""
        return self.start == "epoch"


class VcAsgd(Blending):
    """VC-ASGD (Atre et al., 2021): ``alpha`` weighs the server copy; ``var`` is e / (e + 1)."""

    rule: Literal["vc-asgd"] = "vc-asgd"
    alpha: Alpha | Literal["var"] = "var"


class FedAsync(Blending):
    """FedAsync (Xie et al., 2019): VC-ASGD whose client weight decays with staleness."""

    rule: Literal["fedasync"]
    alpha: Alpha | Literal["var"] = 0.4
    decay: Literal["constant", "polynomial", "hinge"] = "polynomial"
    exponent: Number = Field(default=0.5, gt=0)
    """Polynomial: (1 + s)^-exponent."""
    slope: Number = Field(default=10.0, gt=0)
    after: Number = Field(default=4.0, ge=0)
    """Hinge: 1 up to a staleness of ``after``, then 1 / (slope (s - after) + 1)."""


class Easgd(Blending):
    """EASGD's centre (Zhang et al., 2015): each result pulls it by ``beta`` / k."""

    rule: Literal["easgd"]
    beta: Number = Field(default=0.9, gt=0, le=1)


class Stepping(Rule):
    """A rule that adds whole updates, and diverges when too many are in flight at once."""

    eta: Number | None = Field(default=None, gt=0)
    """How much of each update is added; left out, 1 / k."""
    force: bool = False
    """Let ``eta`` be above 1.5 / k."""


class Delta(Stepping):
    """Downpour's form (Dean et al., 2012): add each result's update."""

    rule: Literal["delta"]


class DcAsgd(Stepping):
    """DC-ASGD (Zheng et al., 2017): Downpour with a first-order correction for staleness."""

    rule: Literal["dc-asgd"]
    correction: Number | None = Field(default=None, ge=0)
    """The paper's lambda; left out, its 0.04, or 2 where ``adaptive``."""
    adaptive: bool = False
    """Divide the correction by the root of a running mean square of the updates."""
    decay: Number = Field(default=0.95, ge=0, lt=1)
    """Of that running mean."""


class DampedDelta(Rule):
    """Blend by 1/m and add 2/m of the update, so that it is stable at every staleness."""

    rule: Literal["damped-delta"]
    m: Literal["staleness", "in-flight"] = "staleness"
    """1 + the result's staleness, or k."""


class DelayedNesterov(Rule):
    """Delayed Nesterov (Liu et al., 2024): outer momentum once per ``every`` results."""

    rule: Literal["delayed-nesterov"]
    eta: Number = Field(default=0.7, gt=0)
    momentum: Number = Field(default=0.9, ge=0, lt=1)
    every: Count | None = Field(default=None, ge=1)
    """N; left out, the larger of k and 8: a momentum that turns more often runs away."""
    spread: Number = Field(default=0.0, ge=0, le=1)
    """How much of the momentum is applied between two updates of it: c = spread / N."""


class FedBuff(Rule):
    """FedBuff (Nguyen et al., 2022): one step per ``size`` results, by their mean update."""

    rule: Literal["fedbuff"]
    size: Count | None = Field(default=None, ge=1)
    """K; left out, k."""
    eta: Number = Field(default=1.0, gt=0)
    weigh: Literal["results", "samples"] = "results"
    exponent: Number = Field(default=0.5, ge=0)
    """An update counts (1 + versions it is behind)^-exponent."""


class Synchronous(Rule):
    """A rule that merges in rounds: an epoch's results become one version, all at once."""

    deadline: Duration | None = None
    """From here on a round, counted from its epoch's beginning, waits for the quorum alone."""
    quorum: Number | None = Field(default=None, gt=0, le=1)
    """The share of an epoch's subtasks that must be merged by then; left out, ``QUORUM``."""
    late: Literal["drop", "merge"] | None = None
    """What becomes of a subtask that was out when its round closed: nothing (left out), or it
    enters the next round by its update. The last round has no next one."""

    @model_validator(mode="after")
    def _stragglers_need_a_deadline(self) -> Self:
        for name in ("quorum", "late"):
            if getattr(self, name) is not None and self.deadline is None:
                raise ValueError(f"{name} needs a deadline: without one a round waits for everyone")
        return self

    @property
    def starts_at_epoch(self) -> bool:
        """Return whether subtasks begin from the version that stood when their epoch began."""
        return True

    @property
    def in_rounds(self) -> bool:
        """Return whether an epoch's results are merged all at once."""
        return True

    @property
    def enough(self) -> float:
        """Return the share of an epoch's subtasks that a round past its deadline waits for."""
        return QUORUM if self.quorum is None else self.quorum

    @property
    def waits(self) -> timedelta | None:
        """Return how long a round waits for everyone; None: as long as it takes."""
        return None if self.deadline is None else lasts(self.deadline)


class FedAvg(Synchronous):
    """FedAvg (McMahan et al., 2017): a round's mean, by samples, is the next version."""

    rule: Literal["fedavg"]


class DiLoCo(Synchronous):
    """DiLoCo (Douillard et al., 2023): an outer Nesterov step by a round's mean update."""

    rule: Literal["diloco"]
    eta: Number = Field(default=0.7, gt=0)
    momentum: Number = Field(default=0.9, ge=0, lt=1)
    weigh: Literal["results", "samples"] = "results"


def _with_rule(section: Any) -> Any:
    """Let ``merge: {alpha: 0.9}`` mean the paper's rule."""
    if isinstance(section, dict) and "rule" not in section:
        return {"rule": "vc-asgd", **section}
    return section


AnyRule = (
    VcAsgd
    | FedAsync
    | Easgd
    | Delta
    | DcAsgd
    | DampedDelta
    | DelayedNesterov
    | FedBuff
    | FedAvg
    | DiLoCo
)
MergeSpec = Annotated[
    Annotated[AnyRule, Field(discriminator="rule")],
    BeforeValidator(_with_rule),
]


def why_not(merge: AnyRule, in_flight: int, issue: str) -> str | None:
    """Return why a rule cannot work in a job like this, and what to do; None when it can."""
    if isinstance(merge, Synchronous) and issue != "barrier":
        return f'merge.rule: "{merge.rule}" needs schedule.issue "barrier", not "{issue}"'
    if merge.starts_at_epoch and issue != "barrier":
        return f'merge.start: "epoch" needs schedule.issue "barrier", not "{issue}"'
    if not isinstance(merge, Stepping) or merge.eta is None or merge.force:
        return None
    most = STABLE_ETA / in_flight
    if merge.eta <= most:
        return None
    return (
        f"merge.eta: {merge.eta:g} is above {STABLE_ETA:g}/k = {most:.6g} with k = {in_flight} "
        "subtasks in flight, where it diverges; lower it, leave it out, or say force: true"
    )
