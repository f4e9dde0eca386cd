"""The parameters of template.yaml as one typed value.

What is left out keeps the template's default and stays a parameter of the stack, to be given with
``cdk deploy --parameters``. A test compares the fields with the template's parameters.
"""

from dataclasses import dataclass, fields
from typing import Literal

__all__ = ["PipelineProperties"]


@dataclass(frozen=True, kw_only=True)
class PipelineProperties:
    """What may be said of a pipeline; template.yaml says what each of these means."""

    lease_seconds: int | None = None
    function_timeout_seconds: int | None = None
    function_queue_visibility_seconds: int | None = None
    reconcile_schedule: str | None = None
    batching_window_seconds: int | None = None
    aggregate_concurrency: int | None = None
    log_retention_days: int | None = None
    plan_memory_mb: int | None = None
    aggregate_memory_mb: int | None = None
    reconcile_memory_mb: int | None = None
    function_storage_mb: int | None = None
    budget_alarm_percent: int | None = None
    notification_email: str | None = None
    worker_image: str | None = None
    worker_gpus: int | None = None
    worker_vcpus: int | None = None
    worker_memory_mb: int | None = None
    worker_shared_memory_mb: int | None = None
    worker_idle_seconds: int | None = None
    worker_max_seconds: int | None = None
    capacity: Literal["spot", "spot-then-on-demand", "on-demand"] | None = None
    max_vcpus: int | None = None
    gpu_instance_types: tuple[str, ...] | None = None
    cpu_instance_types: tuple[str, ...] | None = None
    volume_gib: int | None = None
    vpc_id: str | None = None
    subnet_ids: tuple[str, ...] | None = None
    zone_count: Literal[2, 3] | None = None
    interface_endpoints: bool | None = None

    def parameters(self) -> dict[str, str | int]:
        """Return what was said, as the template's parameters take it."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            parameter(name): _written(value) for name, value in given.items() if value is not None
        }


def parameter(field: str) -> str:
    """Return the template's name of a field: ``worker_image`` is ``WorkerImage``."""
    return "".join(word.capitalize() for word in field.split("_"))


def _written(value: bool | int | str | tuple[str, ...]) -> str | int:  # noqa: FBT001 -- a value, not a switch
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else value
