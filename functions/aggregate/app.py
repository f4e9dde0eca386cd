"""Results landed in S3: merge what this batch holds, in one pass per job.

S3 -> ``results`` queue -> here. Powertools' per-record processor cannot merge a batch, so the
answer is made by hand: when a job's step fails, that job's messages go back, no others.
"""

from functools import cache
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.aggregate.grouping import Group, group_by_job
from functions.runtime import Root, logger, make_root, metrics, tracer
from spotgrad.errors import SpotgradError
from spotgrad.protocol.events import sqs_records
from spotgrad.settings import AggregateSettings, read
from spotgrad.steps.aggregate_results import aggregate_results

settings = read(AggregateSettings)  # at the cold start: a wrong deployment fails before any message


@cache
def root() -> Root:
    return make_root(settings)


def aggregate(job: str, group: Group) -> list[str]:
    try:
        done = aggregate_results(root().world, job, [key for _, key in group])
    except SpotgradError as reason:
        logger.warning("again later", job=job, reason=str(reason))
        return [message_id for message_id, _ in group]
    for row in done.refused:
        logger.warning("refused", job=job, result=row.key, reason=row.reason)
    logger.info("aggregated", job=job, version=done.version, merged=done.merged)
    metrics.add_metric("ResultsMerged", MetricUnit.Count, done.merged)
    metrics.add_metric("ResultsRefused", MetricUnit.Count, len(done.refused))
    return []


@logger.inject_lambda_context(clear_state=True)
@tracer.capture_lambda_handler(capture_response=False)
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001 - Lambda's signature
    jobs, failed = group_by_job(sqs_records(event))
    metrics.add_metric("MessagesMalformed", MetricUnit.Count, len(failed))
    for job, group in jobs.items():
        failed += aggregate(job, group)
    return {"batchItemFailures": [{"itemIdentifier": one} for one in dict.fromkeys(failed)]}
