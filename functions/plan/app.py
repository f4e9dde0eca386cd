"""A job file landed in S3: plan it, or record why it is refused.

S3 -> ``uploads`` queue -> here. Records are independent: one that raises goes back alone.
"""

from functools import cache
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.runtime import Root, logger, make_root, metrics, tracer
from spotgrad.errors import Malformed, NotFound
from spotgrad.protocol.events import objects_created
from spotgrad.protocol.keys import JobFileKey
from spotgrad.settings import PlanSettings, read
from spotgrad.steps.plan_job import plan_job

batch = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
settings = read(PlanSettings)  # at the cold start: a wrong deployment fails before any message


@cache
def root() -> Root:
    return make_root(settings.bucket, settings.subtasks_queue_url)


def plan_record(record: SQSRecord) -> None:  # Powertools passes it by this very name
    for created in objects_created(record.body):
        try:
            job = JobFileKey.parse(created.key).job
            planned = plan_job(
                root().world, job, planning_seconds=settings.function_timeout_seconds
            )
        except (Malformed, NotFound) as reason:  # another file under jobs/, or deleted since
            logger.warning("no job file", key=created.key, reason=str(reason))
        else:
            logger.info(planned.outcome, job=job, reason=planned.reason)
            metrics.add_metric("JobFiles", MetricUnit.Count, planned.outcome == "planned")


@logger.inject_lambda_context(clear_state=True)
@tracer.capture_lambda_handler(capture_response=False)
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    metrics.add_metric("JobFiles", MetricUnit.Count, 0)  # no datum at all is a warning
    return process_partial_response(event, plan_record, batch, context)
