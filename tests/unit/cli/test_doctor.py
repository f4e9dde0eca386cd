"""``doctor`` on a deployment that is broken in one place at a time."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spotgrad.aws.facts import JobQueueFacts, StackFacts
from spotgrad.cli import doctor as module
from spotgrad.cli.doctor import examine
from spotgrad.cli.output import Output
from spotgrad.errors import AccessDenied, StoreUnavailable
from tests.fakes.account import SPOT_G, FakeAccount, arn_of, environment, outputs

Break = Callable[[FakeAccount], object]
UPLOADS = "https://sqs/Uploads"


def findings(
    account: FakeAccount, capsys: pytest.CaptureFixture[str], *, installed: str = "1.2.3"
) -> tuple[bool, dict[str, Any]]:
    capsys.readouterr()
    good = examine(account, "spotgrad", installed, Output(as_json=True))
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] == good
    return good, {row["check"]: row for row in document["checks"]}


def without_fleet(account: FakeAccount) -> None:
    said = {name: text for name, text in outputs().items() if not name.startswith("Worker")}
    account.stacks["spotgrad"] = StackFacts("spotgrad", "CREATE_COMPLETE", said)


def of_stack(**changes: Any) -> Break:
    def change(account: FakeAccount) -> None:
        account.stacks["spotgrad"] = replace(account.stacks["spotgrad"], **changes)

    return change


def of_queue(**changes: Any) -> Break:
    def change(account: FakeAccount) -> None:
        account.queues[UPLOADS] = replace(account.queues[UPLOADS], **changes)

    return change


def of_function(**changes: Any) -> Break:
    def change(account: FakeAccount) -> None:
        account.functions["plan"] = replace(account.functions["plan"], **changes)

    return change


def of_fleet(*environments: Any, **changes: Any) -> Break:
    def change(account: FakeAccount) -> None:
        account.fleet = replace(account.fleet, environments=environments, **changes)

    return change


def of_on_demand(**changes: Any) -> Break:
    def change(account: FakeAccount) -> None:
        of_stack(outputs=outputs() | {"WorkerOnDemandJobQueue": "on-demand"})(account)
        account.on_demand = replace(account.on_demand, **changes)

    return change


def without_output(name: str) -> Break:
    return of_stack(outputs={key: value for key, value in outputs().items() if key != name})


def test_a_healthy_deployment_passes_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    good, rows = findings(FakeAccount(), capsys)
    assert good
    assert {row["verdict"] for row in rows.values()} == {"ok"}
    assert {name: row["detail"] for name, row in rows.items()} == {
        "credentials": "arn:aws:iam::123456789012:user/somebody",
        "region": "us-east-1",
        "stack": "spotgrad is UPDATE_COMPLETE",
        "versions": "spotgrad 1.2.3, deployed 1.2.3",
        "bucket": "spotgrad-bucket",
        "queues": "uploads 0, subtasks 0, results 0; dead letters 0",
        "notifications": "4 kinds of upload reach their queues",
        "functions": "Plan, Aggregate, Reconcile",
        "compute environments": "spot VALID",
        "worker image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/spotgrad:1",
        "vCPU quota": "All G and VT Spot Instance Requests: 64 vCPUs; a worker needs 4",
    }


def test_what_was_read_is_not_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    account = FakeAccount()
    findings(account, capsys)
    assert account.asked.count("stack") == account.asked.count("job_queue") == 1
    assert account.asked.count("queue") == 6


def test_a_deployment_without_a_fleet_is_healthy_too(capsys: pytest.CaptureFixture[str]) -> None:
    account = FakeAccount()
    without_fleet(account)
    good, rows = findings(account, capsys)
    assert good
    for check in ("compute environments", "worker image", "vCPU quota"):
        assert rows[check]["detail"] == "no fleet: workers are started by hand"
    assert rows["versions"]["detail"].endswith("deployed by sam itself: its version is not noted")


BROKEN: dict[str, tuple[Break, str, str]] = {
    "a stack under way": (
        of_stack(status="UPDATE_IN_PROGRESS"),
        "stack",
        "spotgrad is UPDATE_IN_PROGRESS",
    ),
    "a stack that was never made": (
        of_stack(status="ROLLBACK_COMPLETE"),
        "stack",
        "spotgrad is ROLLBACK_COMPLETE",
    ),
    "no such stack": (
        lambda account: account.stacks.clear(),
        "stack",
        "describe stack spotgrad: there is none",
    ),
    "another version": (
        of_stack(version="1.2.2"),
        "versions",
        "the stack runs spotgrad 1.2.2, this is 1.2.3",
    ),
    "no bucket": (
        of_stack(outputs=outputs() | {"BucketName": "gone"}),
        "bucket",
        "gone: there is none",
    ),
    "no output": (
        without_output("BucketName"),
        "bucket",
        "stack spotgrad has no output BucketName",
    ),
    "no dead letters": (
        of_queue(redrives_to=None),
        "queues",
        "UploadsQueue sends its dead letters to nobody",
    ),
    "foreign dead letters": (
        of_queue(redrives_to=arn_of("Other")),
        "queues",
        f"UploadsQueue sends its dead letters to {arn_of('Other')}",
    ),
    "an upload that nobody hears of": (
        lambda account: account.notifications.pop(1),
        "notifications",
        "jobs/*.yml is not announced to UploadsQueue",
    ),
    "a queue that takes nothing from S3": (
        of_queue(policy=""),
        "notifications",
        "UploadsQueue takes nothing from S3: it has no such policy",
    ),
    "no function": (
        lambda account: account.functions.pop("reconcile"),
        "functions",
        "describe function reconcile: there is none",
    ),
    "a function that failed": (
        of_function(update="Failed"),
        "functions",
        "PlanFunction is Active, its update Failed",
    ),
    "a function that is pending": (
        of_function(state="Pending"),
        "functions",
        "PlanFunction is Pending, its update Successful",
    ),
    "a function that is not fed": (
        of_function(sources={}),
        "functions",
        "PlanFunction is not fed by UploadsQueue: its mapping is missing",
    ),
    "a mapping that is off": (
        of_function(sources={arn_of("Uploads"): "Disabled"}),
        "functions",
        "PlanFunction is not fed by UploadsQueue: its mapping is Disabled",
    ),
    "a job queue that is off": (
        of_fleet(environment(), state="DISABLED"),
        "compute environments",
        "the job queue is DISABLED and VALID",
    ),
    "an on-demand queue that is off": (
        of_on_demand(state="DISABLED", reason="by hand"),
        "compute environments",
        "the on-demand job queue is DISABLED and VALID by hand",
    ),
    "an environment that is invalid": (
        of_fleet(environment(), environment(name="second", status="INVALID", reason="no role")),
        "compute environments",
        "compute environment second is ENABLED and INVALID no role",
    ),
    "no job definition": (
        of_stack(outputs=outputs() | {"WorkerJobDefinition": "gone"}),
        "worker image",
        "job definition gone: there is none in this region",
    ),
    "no image": (
        lambda account: account.images.clear(),
        "worker image",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/spotgrad:1 is not in its repository",
    ),
    "no quota": (
        lambda account: account.quotas.update({SPOT_G: 0}),
        "vCPU quota",
        "All G and VT Spot Instance Requests: 0 vCPUs, and a worker needs 4",
    ),
    "no right to read quotas": (
        lambda account: account.failing.update(quota_vcpus=AccessDenied("read quota: no")),
        "vCPU quota",
        "read quota: no",
    ),
}


@pytest.mark.parametrize(("damage", "check", "detail"), BROKEN.values(), ids=BROKEN)
def test_each_damage_is_found_and_has_a_remedy(
    damage: Break, check: str, detail: str, capsys: pytest.CaptureFixture[str]
) -> None:
    account = FakeAccount()
    damage(account)
    good, rows = findings(account, capsys)
    assert not good
    row = rows[check]
    assert (row["verdict"], row["detail"].strip()) == ("failed", detail)
    assert row["remedy"]


def test_an_aws_that_does_not_answer_is_no_matter_of_logging_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    account = FakeAccount(failing={"identity": StoreUnavailable("no connection")})
    _, rows = findings(account, capsys)
    assert "AWS_ENDPOINT_URL" in rows["credentials"]["remedy"]


def test_without_credentials_nothing_else_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    account = FakeAccount(failing={"identity": AccessDenied("no credentials (log in)")})
    good, rows = findings(account, capsys)
    assert not good
    assert account.asked == ["identity"]
    assert rows["stack"]["detail"] == "not looked at: credentials"
    assert rows["bucket"]["detail"] == "not looked at: stack"
    assert len(rows) == len(module._CHECKS)


def test_an_image_of_another_registry_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    account = FakeAccount()
    account.workers = replace(account.workers, image="registry.example/worker:1")
    good, rows = findings(account, capsys)
    assert good
    assert rows["worker image"]["detail"] == (
        "registry.example/worker:1 (not in ECR: not looked for)"
    )


@pytest.mark.parametrize(
    "fleet",
    [
        JobQueueFacts("ENABLED", "VALID", ""),
        JobQueueFacts("ENABLED", "VALID", "", (environment(instance_types=("trn1",)),)),
    ],
    ids=["no environment", "unknown types"],
)
def test_types_without_a_known_quota_are_not_judged(
    fleet: JobQueueFacts, capsys: pytest.CaptureFixture[str]
) -> None:
    good, rows = findings(FakeAccount(fleet=fleet), capsys)
    assert good
    assert rows["vCPU quota"]["detail"] == "none is known for these types; a worker needs 4"


def test_for_people_a_line_per_check_and_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    account = FakeAccount()
    account.quotas[SPOT_G] = 2
    assert not examine(account, "spotgrad", "1.2.3", Output(as_json=False))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert lines[0].split() == ["ok", "credentials", "arn:aws:iam::123456789012:user/somebody"]
    assert lines[-2].startswith("failed   vCPU quota")
    assert lines[-1].strip() == (
        "-> request a higher quota (Service Quotas console, Amazon EC2), or allow other types"
    )
