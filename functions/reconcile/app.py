"""Every minute: mend what events alone never would, one live job after the other.

A job whose step fails is tried again at the next tick; the others do not wait for it.
"""

from dataclasses import asdict
from functools import cache
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.runtime import Root, logger, make_root, metrics, tell, tend, tracer
from spotgrad.errors import SpotgradError
from spotgrad.settings import ReconcileSettings, read
from spotgrad.steps.reconcile_job import Watch, active_jobs, expiring_jobs, reconcile_job

settings = read(ReconcileSettings)  # at the cold start


@cache
def root() -> Root:
    return make_root(settings)


def reconcile(job: str) -> None:
    watch = Watch(root().store, root().subtasks, settings.lease_seconds, root().fleets)
    try:
        done = reconcile_job(root().world, watch, job)
    except SpotgradError as reason:
        logger.warning("again at the next tick", job=job, reason=str(reason))
        metrics.add_metric("ReconcileFailures", MetricUnit.Count, 1)
        return
    if done.reissued or done.results_found or done.swept:
        logger.info("mended", job=job, **asdict(done))
    metrics.add_metric("SubtasksReissued", MetricUnit.Count, done.reissued)


@logger.inject_lambda_context(clear_state=True)
@tracer.capture_lambda_handler(capture_response=False)
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> None:  # noqa: ARG001 - Lambda's signature
    jobs = active_jobs(root().store)
    metrics.add_metric("ActiveJobs", MetricUnit.Count, len(jobs))
    for job in (*jobs, *expiring_jobs(root().store, root().world.clock.now())):
        reconcile(job)
    if jobs:
        tend(root())
    stalled = sum(tell(root(), job) for job in jobs)
    metrics.add_metric("StalledJobs", MetricUnit.Count, stalled)
