from typing import Any

import pytest
from pydantic import ValidationError

from spotgrad.errors import Reject
from spotgrad.settings import (
    AggregateSettings,
    HostSettings,
    MissingSetting,
    PlanSettings,
    QueueSettings,
    ReconcileSettings,
    Settings,
    WorkerSettings,
    read,
    variable,
)

NEEDED = {"SPOTGRAD_BUCKET": "spotgrad-example", "SPOTGRAD_SUBTASKS_QUEUE_URL": "http://queue/1"}
EXTRA = {
    PlanSettings: {"SPOTGRAD_FUNCTION_TIMEOUT_SECONDS": "60"},
    AggregateSettings: {},
    ReconcileSettings: {"SPOTGRAD_LEASE_SECONDS": "120"},
    WorkerSettings: {},
}


@pytest.mark.parametrize("model", EXTRA, ids=lambda model: model.__name__)
def test_each_deployable_reads_its_own_variables(model: type[Settings]) -> None:
    read_settings = read(model, NEEDED | EXTRA[model]).model_dump()
    assert read_settings["bucket"] == "spotgrad-example"
    assert read_settings["subtasks_queue_url"] == "http://queue/1"


@pytest.mark.parametrize("model", EXTRA, ids=lambda model: model.__name__)
def test_each_missing_variable_is_named(model: type[Settings]) -> None:
    environment = NEEDED | EXTRA[model]
    for name in environment:
        without = {key: value for key, value in environment.items() if key != name}
        with pytest.raises(MissingSetting, match=rf"^{name}: .*\(set it in the environment\)$"):
            read(model, without)


def test_the_command_line_knows_the_queues_that_are_named() -> None:
    assert read(QueueSettings, {}) == QueueSettings()
    named = read(QueueSettings, {"SPOTGRAD_RESULTS_QUEUE_URL": "http://queue/2"} | NEEDED)
    assert (named.uploads_queue_url, named.results_queue_url) == (None, "http://queue/2")
    assert named.subtasks_queue_url == "http://queue/1"
    with pytest.raises(MissingSetting, match="SPOTGRAD_UPLOADS_QUEUE_URL: "):
        read(QueueSettings, {"SPOTGRAD_UPLOADS_QUEUE_URL": ""})


@pytest.mark.parametrize("model", [PlanSettings, ReconcileSettings])
def test_a_fleet_is_a_queue_and_a_definition_or_nothing(
    model: type[PlanSettings] | type[ReconcileSettings],
) -> None:
    environment = NEEDED | EXTRA[model]
    assert read(model, environment).worker_job_queue == ""
    fleet = {"SPOTGRAD_WORKER_JOB_QUEUE": "q", "SPOTGRAD_WORKER_JOB_DEFINITION": "d"}
    assert read(model, environment | fleet).worker_job_definition == "d"
    for name in fleet:
        with pytest.raises(MissingSetting, match=r"^SPOTGRAD_WORKER_JOB_DEFINITION: .*queue goes"):
            read(model, environment | {name: fleet[name]})


def test_numbers_are_read_from_text() -> None:
    assert read(PlanSettings, NEEDED | EXTRA[PlanSettings]).function_timeout_seconds == 60
    worker = read(WorkerSettings, NEEDED | {"SPOTGRAD_LEASE_SECONDS": "5", "SPOTGRAD_THREADS": "2"})
    assert (worker.lease_seconds, worker.threads) == (5, 2)


def test_a_worker_has_defaults_for_all_but_its_bucket_and_queue() -> None:
    assert read(WorkerSettings, NEEDED) == WorkerSettings(
        bucket="spotgrad-example",
        subtasks_queue_url="http://queue/1",
        lease_seconds=120,
        threads=1,
        cache_directory=None,
        worker_name=None,
    )


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        (PlanSettings, "SPOTGRAD_FUNCTION_TIMEOUT_SECONDS", "901"),
        (PlanSettings, "SPOTGRAD_FUNCTION_TIMEOUT_SECONDS", "0"),
        (ReconcileSettings, "SPOTGRAD_LEASE_SECONDS", "1"),
        (ReconcileSettings, "SPOTGRAD_LEASE_SECONDS", "43201"),
        (WorkerSettings, "SPOTGRAD_LEASE_SECONDS", "soon"),
        (WorkerSettings, "SPOTGRAD_THREADS", "0"),
        (AggregateSettings, "SPOTGRAD_BUCKET", "ab"),
        (AggregateSettings, "SPOTGRAD_SUBTASKS_QUEUE_URL", ""),
    ],
)
def test_a_wrong_value_is_named(model: type[Settings], name: str, value: str) -> None:
    with pytest.raises(MissingSetting, match=f"^{name}: ") as caught:
        read(model, NEEDED | EXTRA[model] | {name: value})
    assert "\n" not in str(caught.value)


def test_variables_of_others_are_left_alone() -> None:
    read(AggregateSettings, NEEDED | {"SPOTGRAD_THREADS": "many", "HOME": "/"})


def test_without_a_mapping_the_process_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingSetting, match=r"^SPOTGRAD_BUCKET: "):
        read(AggregateSettings)
    for name, value in NEEDED.items():
        monkeypatch.setenv(name, value)
    assert read(AggregateSettings).bucket == "spotgrad-example"


def test_settings_are_frozen_and_closed() -> None:
    settings: Any = read(AggregateSettings, NEEDED)
    with pytest.raises(ValidationError, match="frozen"):
        settings.bucket = "other"
    with pytest.raises(ValidationError, match="Extra inputs"):
        AggregateSettings.model_validate(
            {"bucket": "abc", "subtasks_queue_url": "u", "region": "x"}
        )


def test_a_missing_setting_is_nothing_to_retry() -> None:
    assert issubclass(MissingSetting, Reject)
    assert variable("lease_seconds") == "SPOTGRAD_LEASE_SECONDS"


def test_what_aws_says_about_the_machine_is_read_by_its_own_names() -> None:
    assert read(HostSettings, {}) == HostSettings(
        aws_ec2_metadata_disabled=False,
        aws_ec2_metadata_service_endpoint="http://169.254.169.254",
        ecs_container_metadata_uri_v4=None,
    )
    found = read(
        HostSettings,
        {"AWS_EC2_METADATA_DISABLED": "true", "ECS_CONTAINER_METADATA_URI_V4": "http://ecs/v4/1"},
    )
    assert found.aws_ec2_metadata_disabled
    assert found.ecs_container_metadata_uri_v4 == "http://ecs/v4/1"
    with pytest.raises(MissingSetting, match=r"^AWS_EC2_METADATA_DISABLED: "):
        read(HostSettings, {"AWS_EC2_METADATA_DISABLED": "perhaps"})
