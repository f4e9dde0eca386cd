"""What the three functions share: Powertools, and the composition root made once per cold start.

Not a place for logic: a function parses its event, calls one step and answers.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit

from spotgrad.aws.batch import batch_fleets
from spotgrad.aws.clients import Clients, make_clients
from spotgrad.aws.s3 import S3Store
from spotgrad.aws.sns import SnsTopic
from spotgrad.aws.sqs import SqsQueue
from spotgrad.errors import Reject, SpotgradError
from spotgrad.planning.offer import Offer
from spotgrad.ports import Announcer, WorkerFleet
from spotgrad.settings import (
    AggregateSettings,
    FleetSettings,
    PlanSettings,
    ReconcileSettings,
    Settings,
)
from spotgrad.steps.announce import announce, announce_refusal
from spotgrad.steps.tend_fleet import tend_fleet
from spotgrad.steps.world import World
from spotgrad.system import SystemClock, new_id

logger = Logger()
tracer = Tracer()
metrics = Metrics()


@dataclass(frozen=True)
class Root:
    """The adapters behind a function's ports."""

    store: S3Store
    subtasks: SqsQueue
    settings: Settings

    @cached_property
    def world(self) -> World:
        """Return the ports as the steps take them; it remembers what it read while warm."""
        return World(self.store, self.subtasks, SystemClock(), new_id)

    @cached_property
    def fleets(self) -> Sequence[WorkerFleet]:
        """Return where workers are started, made when first asked for; none by hand."""
        told = self.settings
        if not isinstance(told, FleetSettings) or not told.worker_job_queue:
            return ()
        return batch_fleets(clients().batch, told)

    @property
    def offers(self) -> Sequence[Offer]:
        """Return what the fleets' workers run on."""
        return [fleet.offer for fleet in self.fleets]

    @cached_property
    def announcer(self) -> Announcer | None:
        """Return whom changes of state and refusals are told to; None without a topic."""
        told = self.settings
        if not isinstance(told, PlanSettings | ReconcileSettings) or not told.topic_arn:
            return None
        return SnsTopic(clients().sns, told.topic_arn)


@cache
def clients() -> Clients:
    """Return the process's one set of clients."""
    return make_clients()


def make_root(settings: AggregateSettings | PlanSettings | ReconcileSettings) -> Root:
    """Wire a function's ports to S3, SQS and, for those that start workers, Batch."""
    store = S3Store(clients().s3, settings.bucket)
    return Root(store, SqsQueue(clients().sqs, settings.subtasks_queue_url), settings)


def tend(root: Root) -> None:
    """Start the workers that are missing; what fails here, the next minute does again."""
    if not root.fleets:
        return
    try:
        tended = tend_fleet(root.world, root.fleets)
    except SpotgradError as reason:
        logger.warning("no workers started", reason=str(reason))
        metrics.add_metric("FleetFailures", MetricUnit.Count, 1)
        return
    if tended.started:
        logger.info("workers started", **asdict(tended))
    metrics.add_metric("WorkersStarted", MetricUnit.Count, tended.started)


def tell_refusal(root: Root, job: str) -> bool:
    """Announce why the job's file was refused; return whether anybody was told just now.

    Raises:
        Retry: the topic failed: the message comes back, and the refusal is told then.
    """
    try:
        return root.announcer is not None and announce_refusal(root.world, root.announcer, job)
    except Reject as reason:  # a topic that is gone or closed to us: status tells it all the same
        logger.warning("not announced", job=job, reason=str(reason))
        return False


def tell(root: Root, job: str) -> bool:
    """Announce the job's new state, if it has one; return whether the job stands still."""
    try:
        standing = announce(root.world, root.announcer, job)
    except SpotgradError as reason:
        logger.warning("not announced", job=job, reason=str(reason))
        return False
    if standing.announced:
        logger.info("announced", job=job, state=standing.announced)
    if standing.budget_used_percent is not None:
        metrics.add_metric("BudgetUsedPercent", MetricUnit.Percent, standing.budget_used_percent)
    return standing.stalled
