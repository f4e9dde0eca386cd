"""Environment variables -> frozen models, one per deployable, read once at its composition root.

Nothing else in the project reads the environment (ruff bans it); region, profile and endpoint are
read by boto3 itself. ``template.yaml`` must set exactly these fields for each function: a test
compares the two. The variable of field ``bucket`` is ``SPOTGRAD_BUCKET``.
"""

import os
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spotgrad.errors import Reject

PREFIX = "SPOTGRAD_"


class MissingSetting(Reject):
    """An environment variable is absent or wrong: the deployment has to be mended."""


class Settings(BaseModel):
    """Base of all settings: frozen, nothing extra."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PlanSettings(Settings):
    """What ``functions/plan`` is told."""

    bucket: str = Field(min_length=3)
    subtasks_queue_url: str = Field(min_length=1)
    function_timeout_seconds: int = Field(gt=0, le=900)  # AWS Lambda's limit is 900 s


class AggregateSettings(Settings):
    """What ``functions/aggregate`` is told."""

    bucket: str = Field(min_length=3)
    subtasks_queue_url: str = Field(min_length=1)


class ReconcileSettings(Settings):
    """What ``functions/reconcile`` is told."""

    bucket: str = Field(min_length=3)
    subtasks_queue_url: str = Field(min_length=1)
    lease_seconds: int = Field(ge=2, le=43_200)  # SQS: visibility timeout is at most 12 h


class WorkerSettings(Settings):
    """What a worker container is told."""

    bucket: str = Field(min_length=3)
    subtasks_queue_url: str = Field(min_length=1)
    lease_seconds: int = Field(default=120, ge=2, le=43_200)
    threads: int = Field(default=1, ge=1)
    cache_directory: str | None = None
    worker_name: str | None = None


SomeSettings = TypeVar("SomeSettings", bound=Settings)


def variable(field: str) -> str:
    """Return the name of the environment variable that holds ``field``."""
    return PREFIX + field.upper()


def read(model: type[SomeSettings], environment: Mapping[str, str] | None = None) -> SomeSettings:
    """Read ``model`` from the environment; variables of other deployables are left alone.

    Raises:
        MissingSetting: one line that names the first variable that is absent or wrong.
    """
    source = os.environ if environment is None else environment
    found = {
        name: source[variable(name)] for name in model.model_fields if variable(name) in source
    }
    try:
        return model.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        name = variable(str(first["loc"][0]))
        raise MissingSetting(f"{name}: {first['msg']} (set it in the environment)") from error
