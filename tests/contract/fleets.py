"""Fleets for the contract suite: in memory, on moto's Batch and of processes; how workers move.

moto's jobs succeed as they are submitted, so this puts them where AWS would have them: the server
runs in this process, and its jobs can be reached.
"""

import itertools
from pathlib import Path
from typing import Any, Protocol

import boto3
from moto.batch.models import batch_backends

from infra.local.environment import child_environment
from infra.local.fleet import Fleet
from spotgrad.aws.batch import BatchFleet
from spotgrad.aws.clients import Clients
from spotgrad.ports import WorkerFleet
from tests.fakes.environment import DUMMY
from tests.fakes.fleet import SPOT, FakeFleet

NUMBERS = itertools.count(1)
ACCOUNT = "123456789012"  # moto's
TRUST = '{"Version": "2012-10-17", "Statement": []}'


class Yard(Protocol):
    """A fleet, and what becomes of its workers."""

    @property
    def fleet(self) -> WorkerFleet:
        """The fleet under test."""
        ...

    def settle(self) -> None:
        """Let what was submitted wait for a machine."""
        ...

    def board(self) -> None:
        """Let all that wait begin."""
        ...

    def vanish(self) -> None:
        """Let every worker end well."""
        ...


class FakeYard:
    """On the strict fake."""

    def __init__(self) -> None:
        self._fleet = FakeFleet()

    @property
    def fleet(self) -> WorkerFleet:
        return self._fleet

    def settle(self) -> None:
        """Nothing: they wait already."""

    def board(self) -> None:
        self._fleet.board()

    def vanish(self) -> None:
        self._fleet.vanish()


class MotoYard:
    """On moto's Batch, with a queue of its own."""

    def __init__(self, clients: Clients, endpoint: str) -> None:
        queue, definition = make_fleet(endpoint, f"contract-{next(NUMBERS)}")
        self._queue = queue
        self._fleet = BatchFleet(clients.batch, queue, definition, SPOT)

    @property
    def fleet(self) -> WorkerFleet:
        return self._fleet

    def settle(self) -> None:
        self._move("RUNNABLE")

    def board(self) -> None:
        self._move("RUNNING")

    def vanish(self) -> None:
        self._move("SUCCEEDED")

    def _move(self, status: str) -> None:
        backend: Any = batch_backends[ACCOUNT][DUMMY["AWS_REGION"]]
        for job in backend.get_job_queue(self._queue).jobs:
            job.status = status
            job.job_stopped = status == "SUCCEEDED"
            job.job_stopped_reason = None


class LocalYard:
    """On processes of this machine, which there are places enough for."""

    def __init__(self, log: Path) -> None:
        self._fleet = Fleet(
            8,
            lambda name: child_environment(extra={"NAME": name}),
            log,
            lambda _: ("obey",),
            module="tests.infra.workers",
        )

    @property
    def fleet(self) -> WorkerFleet:
        return self._fleet

    def settle(self) -> None:
        """Nothing: they wait for the next time that the fleet is tended."""

    def board(self) -> None:
        self._fleet.tend()

    def vanish(self) -> None:
        self._fleet.tend()
        self._fleet.stop()


def make_fleet(endpoint: str, name: str) -> tuple[str, str]:
    """Create a CPU fleet in moto, as small as moto takes it; return queue and job definition."""
    where: Any = {"endpoint_url": endpoint, "region_name": DUMMY["AWS_REGION"]}
    session: Any = boto3.session.Session(ACCOUNT, "testing")
    batch, ec2, iam = (session.client(each, **where) for each in ("batch", "ec2", "iam"))
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    profile = iam.create_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Arn"]
    subnet = ec2.describe_subnets()["Subnets"][0]
    environment = batch.create_compute_environment(
        computeEnvironmentName=name,
        type="MANAGED",
        state="ENABLED",
        serviceRole=role,
        computeResources={
            "type": "SPOT",
            "minvCpus": 0,
            "maxvCpus": 4,
            "instanceTypes": ["optimal"],
            "subnets": [subnet["SubnetId"]],
            "securityGroupIds": [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
            "instanceRole": profile,
        },
    )["computeEnvironmentArn"]
    queue = batch.create_job_queue(
        jobQueueName=name,
        priority=1,
        state="ENABLED",
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment}],
    )["jobQueueArn"]
    definition = batch.register_job_definition(
        jobDefinitionName=name,
        type="container",
        containerProperties={"image": "worker", "vcpus": 1, "memory": 512},
    )["jobDefinitionArn"]
    return queue, definition
