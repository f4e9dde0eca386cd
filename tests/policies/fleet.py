"""The calls that a local run has no reason for: a fleet to start workers in, a topic, a doctor.

Functions and command line are the deployed ones, in processes of their own that write down what
they ask for; AWS is moto in this process, whose Batch jobs can be put where AWS would have them.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from moto.batch.models import batch_backends

from infra.local import function
from infra.local.cloud import Cloud
from infra.local.environment import CALLER, REGION, child_environment, local_clients
from infra.local.topology import LOCAL_PSEUDO, read_topology
from spotgrad.aws.s3 import S3Store
from spotgrad.protocol.events import s3_notification
from spotgrad.protocol.keys import JobFileKey, ManifestKey
from tests.builders import job_file, manifest
from tests.contract.deployment import NAMES, Deployer, Deployment
from tests.contract.fleets import make_fleet
from tests.contract.moto_server import served
from tests.e2e.commands import COMMAND
from tests.functions.cloud import sqs_event

STACK = LOCAL_PSEUDO["AWS::StackName"]
DOCTOR = "doctor"
TICK: Mapping[str, Any] = {"detail-type": "Scheduled Event"}


@dataclass(frozen=True)
class Site:
    """A stack with a fleet of both kinds and a topic, and who is called in it."""

    endpoint: str
    cloud: Cloud
    fleet: Mapping[str, str]
    folder: Path

    @property
    def store(self) -> S3Store:
        return S3Store(local_clients(self.endpoint).s3, self.cloud.bucket)

    def call(self, name: str, *events: object) -> None:
        """Invoke a function in a process of its own, as Lambda would."""
        resource = read_topology().functions[name]
        own = {**self.cloud.environment(resource.environment), **self.fleet}
        environment = child_environment(self.endpoint, extra=own)
        deployed = function.Deployment(resource, environment, self.folder / "log")
        running = function.ExecutionEnvironment(deployed)
        try:
            for event in events:
                running.invoke(event)
        finally:
            running.close()

    def upload(self, job: str, **fields: Any) -> object:
        """Upload a job file; return its event."""
        key = JobFileKey(job).render()
        self.store.put(key, job_file(name=job, **fields))
        return sqs_event(s3_notification(self.cloud.bucket, key))


def use_fleet_and_topic(folder: Path) -> None:
    """Plan, reconcile, refuse and examine with a fleet; whoever calls writes it down."""
    with served() as endpoint:
        deployment = Deployer(endpoint).deploy(STACK, version("spotgrad"))
        site = Site(endpoint, as_cloud(deployment), make_surroundings(endpoint, deployment), folder)
        site.store.put(ManifestKey("digits").render(), manifest(4).to_json())
        events = [
            site.upload("interruptible"),
            site.upload("steady", workers={"spot": False}),
            site.upload("refused", workers={"gpu": 9}),
        ]
        site.call("PlanFunction", *events)
        everybody_waits()
        site.call("PlanFunction", events[0])
        everybody_leaves()
        forget_starts(site)
        site.call("ReconcileFunction", TICK)
        everybody_waits()
        site.call("ReconcileFunction", TICK)
        examine(site)


def as_cloud(deployment: Deployment) -> Cloud:
    """Return the deployment as the local run knows one."""
    names = [f"{name}{kind}Queue" for name in NAMES for kind in ("", "DeadLetter")]
    urls = {name: deployment.outputs[f"{name}Url"] for name in names}
    return Cloud(deployment.bucket, urls)


def make_surroundings(endpoint: str, deployment: Deployment) -> dict[str, str]:
    """Make a second queue and a topic; return what the functions are told of them."""
    on_demand, _ = make_fleet(endpoint, f"{STACK}-OnDemandJobQueue")
    topic = Deployer(endpoint).client("sns").create_topic(Name=f"{STACK}-Topic")["TopicArn"]
    return {
        "SPOTGRAD_WORKER_JOB_QUEUE": deployment.outputs["WorkerJobQueue"],
        "SPOTGRAD_WORKER_JOB_DEFINITION": deployment.outputs["WorkerJobDefinition"],
        "SPOTGRAD_ON_DEMAND_JOB_QUEUE": on_demand,
        "SPOTGRAD_WORKER_GPUS": "1",
        "SPOTGRAD_TOPIC_ARN": topic,
    }


def everybody_waits() -> None:
    """Let every worker want a machine that does not come."""
    for job in _workers():
        job.status, job.job_stopped, job.job_stopped_reason = "RUNNABLE", False, None


def everybody_leaves() -> None:
    for job in _workers():
        job.status, job.job_stopped = "SUCCEEDED", True


def _workers() -> list[Any]:
    backend: Any = batch_backends[LOCAL_PSEUDO["AWS::AccountId"]][REGION]
    return [job for queue in backend._job_queues.values() for job in queue.jobs]


def forget_starts(site: Site) -> None:
    """Let the notes of the last starts be lost: what is missing is started again."""
    for info in site.store.list("fleet/"):
        site.store.delete(info.key)


def examine(site: Site) -> None:
    """Run ``spotgrad doctor``; moto knows no quotas, so it finds that one thing amiss."""
    done = subprocess.run(
        [COMMAND, "doctor", "--stack", STACK, "--json"],
        cwd=site.folder,
        env=child_environment(site.endpoint, extra={CALLER: DOCTOR}),
        capture_output=True,
        check=False,
        text=True,
    )
    said = {row["check"]: row["verdict"] for row in json.loads(done.stdout)["checks"]}
    assert [check for check, verdict in said.items() if verdict != "ok"] == ["vCPU quota"], said
