"""The job file as a model: every field of the public contract, validated, with its default.

Not the parser: ``job_file`` turns YAML into this and words the errors. A value that is valid but
that this version cannot honour is refused by name, never ignored.
"""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from spotgrad.protocol.dataset import DatasetName
from spotgrad.protocol.merge import DeDLOC, MergeSpec, VcAsgd, why_not
from spotgrad.protocol.optimizer import Beta
from spotgrad.protocol.scalars import Count, Duration, Number, lasts
from spotgrad.protocol.wire import Part

JobName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,62}$",
        description="1 to 63 of a-z, 0-9 and -, not starting with -",
    ),
]
TaskPath = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        max_length=300,
        description="text of the form module:callable",
    ),
]
"""``module:callable``: beside the job file, in the code bundle, or built in."""


class Sgd(Part):
    """``torch.optim.SGD``."""

    name: Literal["sgd"]
    lr: Number = Field(gt=0)
    momentum: Number = Field(default=0.0, ge=0, lt=1)
    weight_decay: Number = Field(default=0.0, ge=0)
    nesterov: bool = False

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs a momentum above 0")
        return self


class Adam(Part):
    """``torch.optim.Adam`` or, with decoupled weight decay, ``AdamW``."""

    name: Literal["adam", "adamw"]
    lr: Number = Field(gt=0)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: Number = Field(default=1e-8, gt=0)
    weight_decay: Number = Field(default=0.0, ge=0)


Optimizer = Annotated[Sgd | Adam, Field(discriminator="name")]


class Local(Part):
    """What a worker does with one shard; the optimizer starts fresh in every subtask."""

    passes: Count = Field(default=1, ge=1)
    batch_size: Count = Field(default=32, ge=1)
    optimizer: Optimizer = Sgd(name="sgd", lr=0.1, momentum=0.9)
    precision: Literal["fp32", "bf16"] = "fp32"
    time_slice: Duration | None = None
    """Rule ``dedloc``: a gradient is sent after this long, over as many samples as were seen; the
    rest of the shard is not seen in this epoch."""


class Workers(Part):
    """How many workers may run at once, and on what."""

    max: Count = Field(default=8, ge=1)
    subtasks_per_worker: Count = Field(default=1, ge=1)
    spot: bool = True
    gpu: Count = Field(default=0, ge=0)
    usd_per_hour: Number | None = Field(default=None, gt=0, le=10_000)
    """What one worker costs while it works; there is no price table, so the user says it."""


class Schedule(Part):
    """When subtasks go out: at the epoch's barrier (the paper) or rolling behind each merge."""

    issue: Literal["barrier", "rolling"] = "barrier"
    max_epoch_lead: Count = Field(default=1, ge=1)
    max_in_flight: Count = Field(default=16, ge=1, le=100_000)
    """SQS allows 120,000 in flight:
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html
    """


class Evaluate(Part):
    """After every how many epochs the version that closed the epoch is evaluated, and on what."""

    every_epochs: Count = Field(default=1, ge=1)
    split: str = Field(default="validation", min_length=1)


class Stop(Part):
    """The job ends when an evaluation's ``metric`` reaches the bound."""

    metric: str = Field(min_length=1)
    at_least: Number | None = None
    at_most: Number | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("needs exactly one of at_least and at_most")
        return self


class Budget(Part):
    """Where the job stops issuing and ends with what it has: DEGRADED."""

    max_usd: Number | None = Field(default=None, gt=0)
    deadline: Duration | None = None

    @model_validator(mode="after")
    def _some_bound(self) -> Self:
        if self.max_usd is None and self.deadline is None:
            raise ValueError("needs max_usd, deadline or both")
        return self

    @property
    def lasts(self) -> timedelta | None:
        """Return how long after its start the job ends."""
        return None if self.deadline is None else lasts(self.deadline)


class Retries(Part):
    """How often a subtask is tried again, by cause; more dead subtasks than ``max_dead`` fail the
    job: a share of all its training subtasks below 1, a count from 1 on.
    """  # noqa: D205 - the sentence is one

    failures: Count = Field(default=3, ge=0)
    interruptions: Count = Field(default=20, ge=0)
    refusals: Count = Field(default=3, ge=0)
    max_dead: Number = Field(default=0.05, ge=0)


NormRule = Literal["largest", "median", "off"]


class Quorum(Part):
    """A share of the training subtasks is trained again by other workers, and compared."""

    share: Number = Field(gt=0, le=1)
    tolerance: Number = Field(default=0.25, gt=0, lt=2)
    """Two results agree when they are at most so many lengths of their update apart; from 2 on,
    where the one is the opposite of the other, all would."""


class Admission(Part):
    """What a training result has to pass beyond being finite and of the right shape."""

    norm: NormRule = "largest"
    """Its update may be 4 x as long as the largest, or the median, of the last 50 accepted; under
    ``median`` a second result of a refused subtask that agrees with the first is admitted."""
    held_out: Count | None = Field(default=None, ge=1)
    """So many samples of ``evaluate.split`` on which the worker measures the trained model's loss;
    above 1.3 x the median of those accepted, + 0.05, it is refused."""
    quorum: Quorum | None = None
    """Who is outvoted twice is quarantined."""


class Keep(Part):
    """What expires, and when."""

    versions: Literal["all"] | Annotated[Count, Field(ge=1)] = "all"
    """The newest so many stay, and whichever are in use, evaluated or final."""
    results_days: Count = Field(default=30, ge=1, le=36_500)
    """After so many days the results and attempts of closed epochs go."""


class JobSpec(Part):
    """A job file, validated."""

    name: JobName
    task: TaskPath
    args: dict[str, JsonValue] = Field(default_factory=dict)
    dataset: DatasetName
    epochs: Count = Field(ge=1, le=999_999)
    seed: Count = Field(default=0, ge=0, lt=2**63)
    merge: MergeSpec = VcAsgd()
    local: Local = Local()
    workers: Workers = Workers()
    schedule: Schedule = Schedule()
    evaluate: Evaluate | None = Evaluate()
    stop: Stop | None = None
    budget: Budget | None = None
    retries: Retries = Retries()
    admission: Admission = Admission()
    keep: Keep = Keep()

    @model_validator(mode="after")
    def _refuse_what_is_not_built(self) -> Self:
        if self.workers.subtasks_per_worker != 1:
            raise ValueError("workers.subtasks_per_worker is not supported yet; leave it out")
        if self.stop is not None and self.evaluate is None:
            raise ValueError("stop needs evaluate: a stop rule looks at an evaluation's metric")
        if self.admission.held_out is not None and self.evaluate is None:
            raise ValueError("admission.held_out needs evaluate: its samples are of evaluate.split")
        return self

    @model_validator(mode="after")
    def _a_quorum_needs_three(self) -> Self:
        if self.admission.quorum is not None and self.workers.max < 3:
            raise ValueError(
                f"admission.quorum needs workers.max of at least 3, not {self.workers.max}: "
                "where two disagree, a third has to say which of them is wrong"
            )
        return self

    @model_validator(mode="after")
    def _refuse_a_rule_that_cannot_work(self) -> Self:
        problem = why_not(self.merge, self.in_flight, self.schedule.issue)
        if problem is not None:
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _gradients_leave_no_choice(self) -> Self:
        """Where workers send gradients, what concerns their own steps has no meaning."""
        gradients, local = isinstance(self.merge, DeDLOC), self.local
        if local.time_slice is not None and not gradients:
            raise ValueError('local.time_slice needs merge.rule "dedloc", which can use a part')
        for field, present, instead in (
            ("local.optimizer", local.optimizer != Local().optimizer, "say merge.optimizer"),
            ("local.passes", local.passes != 1, "a gradient is of one pass; leave it out"),
            ("admission.held_out", self.admission.held_out is not None, "leave it out"),
            ("admission.quorum", self.admission.quorum is not None, "leave it out"),
        ):
            if gradients and present:
                raise ValueError(f'{field} has no meaning under merge.rule "dedloc": {instead}')
        return self

    @model_validator(mode="after")
    def _money_needs_a_price(self) -> Self:
        limit = None if self.budget is None else self.budget.max_usd
        if limit is not None and self.workers.usd_per_hour is None:
            raise ValueError(
                f"budget.max_usd: {limit:g} cannot be kept without a price; "
                "say what one worker costs in workers.usd_per_hour"
            )
        return self

    @property
    def in_flight(self) -> int:
        """Return how many subtasks may be out at once: k in the formulas of the merge rules."""
        at_work = self.workers.max * self.workers.subtasks_per_worker
        return min(self.schedule.max_in_flight, at_work)
