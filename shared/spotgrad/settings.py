"""Environment variables -> frozen models, one per deployable, read once at its composition root.

Nothing else in the project reads the environment (ruff bans it); region, profile and endpoint are
read by boto3 itself. ``template.yaml`` must set exactly these fields for each function: a test
compares the two. The variable of field ``bucket`` is ``SPOTGRAD_BUCKET``; ``HostSettings`` alone
reads variables that AWS names.
"""

import os
from collections.abc import Mapping
from typing import ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from spotgrad.errors import Reject

PREFIX = "SPOTGRAD_"


class MissingSetting(Reject):
    """An environment variable is absent or wrong: the deployment has to be mended."""


class Settings(BaseModel):
    """Base of all settings: frozen, nothing extra."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    prefix: ClassVar[str] = PREFIX


class FleetSettings(Settings):
    """Where workers are started; without queue and definition they are started by hand."""

    worker_job_queue: str = ""
    worker_job_definition: str = Field(default="", validate_default=True)
    on_demand_job_queue: str = ""
    """Where those are started that may not be interrupted; perhaps the same queue, perhaps none."""
    worker_gpus: int = Field(default=0, ge=0)
    """GPUs of each worker."""

    @field_validator("worker_job_definition")
    @classmethod
    def _both_or_none(cls, definition: str, others: ValidationInfo) -> str:
        if bool(definition) != bool(others.data["worker_job_queue"]):
            raise ValueError("a queue goes with a definition: set SPOTGRAD_WORKER_JOB_QUEUE too")
        return definition


class PlanSettings(FleetSettings):
    """What ``functions/plan`` is told."""

    bucket: str = Field(min_length=3)
    subtasks_queue_url: str = Field(min_length=1)
    function_timeout_seconds: int = Field(gt=0, le=900)  # AWS Lambda's limit is 900 s
    topic_arn: str = ""
    """Where refusals are announced; nothing: nobody is told."""


class AggregateSettings(Settings):
    """What ``functions/aggregate`` is told."""

    bucket: str = Field(min_length=3)
    subtasks_queue_url: str = Field(min_length=1)


class ReconcileSettings(FleetSettings):
    """What ``functions/reconcile`` is told."""

    bucket: str = Field(min_length=3)
    subtasks_queue_url: str = Field(min_length=1)
    lease_seconds: int = Field(ge=2, le=43_200)  # SQS: visibility timeout is at most 12 h
    topic_arn: str = ""
    """Where changes of jobs' states are announced; nothing: nobody is told."""


class WorkerSettings(Settings):
    """What a worker container is told."""

    bucket: str = Field(min_length=3)
    subtasks_queue_url: str = Field(min_length=1)
    lease_seconds: int = Field(default=120, ge=2, le=43_200)
    threads: int = Field(default=1, ge=1)
    cache_directory: str | None = None
    cache_bytes: int | None = Field(default=None, ge=0)
    """What the cache may hold; nothing: 2 GiB in a folder, 512 MiB in memory."""
    worker_name: str | None = None
    gpus: int = Field(default=0, ge=0)
    """GPUs that this worker must have; without them it leaves before it receives anything."""
    free_disk_bytes: int = Field(default=256 << 20, ge=0)
    """Free disk that this worker must have, likewise."""
    notice_seconds: float = Field(default=90.0, ge=0)
    """From SIGTERM to SIGKILL, less a margin; ECS's stopTimeout is at most 120 s."""
    notice_poll_seconds: float = Field(default=5.0, gt=0)
    held_message: str | None = None
    """A message that this process holds already: set by the process that it replaces alone."""
    metadata_endpoint: str | None = None
    """Where to ask for Spot notices instead of the instance's own address: local runs and tests."""


class QueueSettings(Settings):
    """Which queues the command line may look into; those that are not named it leaves alone."""

    uploads_queue_url: str | None = Field(default=None, min_length=1)
    results_queue_url: str | None = Field(default=None, min_length=1)
    subtasks_queue_url: str | None = Field(default=None, min_length=1)


class HostSettings(Settings):
    """What AWS tells every container about the machine under it; the names are AWS's own.

    https://docs.aws.amazon.com/sdkref/latest/guide/feature-imds-credentials.html
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4.html
    """

    prefix: ClassVar[str] = ""

    aws_ec2_metadata_disabled: bool = False
    aws_ec2_metadata_service_endpoint: str = "http://169.254.169.254"
    ecs_container_metadata_uri_v4: str | None = None


SomeSettings = TypeVar("SomeSettings", bound=Settings)


def variable(field: str, prefix: str = PREFIX) -> str:
    """Return the name of the environment variable that holds ``field``."""
    return prefix + field.upper()


def read(model: type[SomeSettings], environment: Mapping[str, str] | None = None) -> SomeSettings:
    """Read ``model`` from the environment; variables of other deployables are left alone.

    Raises:
        MissingSetting: one line that names the first variable that is absent or wrong.
    """
    source = os.environ if environment is None else environment
    names = {name: variable(name, model.prefix) for name in model.model_fields}
    found = {name: source[names[name]] for name in names if names[name] in source}
    try:
        return model.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        name = names[str(first["loc"][0])]
        raise MissingSetting(f"{name}: {first['msg']} (set it in the environment)") from error
