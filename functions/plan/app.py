"""A job file landed in S3: plan it, or record why it is refused. A control file: carry it out.

S3 -> ``uploads`` queue -> here. Records are independent: one that raises goes back alone.
"""

from functools import cache
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities import batch as batches
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.runtime import Root, logger, make_root, metrics, tell_refusal, tend, tracer
from spotgrad.errors import Malformed, NotFound
from spotgrad.protocol.events import objects_created
from spotgrad.protocol.keys import ControlKey, JobFileKey
from spotgrad.settings import PlanSettings, read
from spotgrad.steps.control_job import control_job
from spotgrad.steps.plan_job import plan_job

batch = batches.BatchProcessor(batches.EventType.SQS, raise_on_entire_batch_failure=False)
settings = read(PlanSettings)  # at the cold start: a wrong deployment fails before any message


@cache
def root() -> Root:
    return make_root(settings)


def plan_record(record: SQSRecord) -> None:  # Powertools passes it by this very name
    for created in objects_created(record.body):
        take_up = control if created.key.endswith("/control.json") else plan
        try:
            take_up(created.key)
        except (Malformed, NotFound) as reason:  # another file, a damaged one, or deleted since
            logger.warning("passed over", key=created.key, reason=str(reason))


def plan(key: str) -> None:
    job, seconds = JobFileKey.parse(key).job, settings.function_timeout_seconds
    planned = plan_job(root().world, job, planning_seconds=seconds, offers=root().offers)
    told = planned.outcome == "refused" and tell_refusal(root(), job)
    logger.info(planned.outcome, job=job, reason=planned.reason, told=told)
    metrics.add_metric("JobFiles", MetricUnit.Count, planned.outcome == "planned")


def control(key: str) -> None:
    job = ControlKey.parse(key).job
    logger.info("control file", job=job, **vars(control_job(root().world, job)))


@logger.inject_lambda_context(clear_state=True)
@tracer.capture_lambda_handler(capture_response=False)
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    metrics.add_metric("JobFiles", MetricUnit.Count, 0)  # no datum at all is a warning
    answer = batches.process_partial_response(event, plan_record, batch, context)
    tend(root())
    return answer
