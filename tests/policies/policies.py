"""Every call of a real run is allowed by the caller's policy; every allowed action has its use.

The run is the local one: the same functions, worker and command line as deployed, in processes of
their own, which write down what they ask AWS for; then the same functions with a fleet and a topic
(``tests.policies.fleet``). Policies come from the templates.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.environment import CALLER, child_environment
from infra.local.home import Home
from infra.local.run import LocalRun, RunOptions, local_run
from spotgrad.cli.job import load_job
from tests.e2e.commands import COMMAND, small_digits
from tests.policies.calls import Call, Need, read_calls
from tests.policies.fleet import DOCTOR, use_fleet_and_topic
from tests.policies.justified import JUSTIFIED, reason_for
from tests.policies.statements import Allowed, allowed, roles_of_functions

pytestmark = pytest.mark.timeout(300)

NAME = "digits-cnn"
USER = "UserPolicy"
RECORDER = Path(__file__).parent / "recorder"


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    folder, records = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("records")
    with pytest.MonkeyPatch.context() as patch:
        path = os.environ.get("PYTHONPATH", "")  # noqa: TID251 - handed on to the children
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(RECORDER), path))))
        patch.setenv("RECORDED_CALLS", str(records))
        job_file = small_digits(folder / "job", epochs=6, evaluate={"every_epochs": 1})
        options = RunOptions(load_job(job_file), slow_seconds=(0.5,))
        with local_run(options, Home(NAME, folder / "home")) as run:
            use_every_command(run, job_file.parent)
        use_fleet_and_topic(folder)
    return [call for call in read_calls(records) if call.caller]


def use_every_command(run: LocalRun, folder: Path) -> None:
    """Do as a user does beside the run, then wait for its end and look at what came of it."""

    def spotgrad(*arguments: str) -> None:
        environment = child_environment(
            run.stack.endpoint_url,
            extra={"SPOTGRAD_BUCKET": run.stack.cloud.bucket, CALLER: "user"},
        )
        done = subprocess.run(
            [COMMAND, *arguments], cwd=folder, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, (arguments, done.stderr)

    second = folder / "second.yaml"
    second.write_text((folder / "job.yaml").read_text(encoding="utf-8").replace(NAME, "second"))
    spotgrad("pause", NAME)
    spotgrad("dataset", "push", "more-digits", "digits.py", "--shards", "5")
    spotgrad("validate", "job.yaml", "--bucket", run.stack.cloud.bucket)
    for command in (["submit", str(second)], ["pause", "second"], ["cancel", "second"], ["list"]):
        spotgrad(*command)
    spotgrad("resume", NAME)
    spotgrad("status", NAME)
    assert run.watch(lambda *_: None).state == "SUCCEEDED"
    run.drain()
    for command in (["versions", NAME], ["pull", NAME], ["audit", NAME], ["dlq", "list", NAME]):
        spotgrad(*command)
    spotgrad("watch", NAME)
    spotgrad("replay", NAME, "--version", "3")


def principal(call: Call) -> str:
    """Return whose policy counts: a function's role, the workers', or the user's."""
    if call.caller == "user":
        return USER
    if call.caller == DOCTOR:
        return "DoctorPolicy"
    if call.caller.startswith("local-"):
        return "WorkerRole"
    return roles_of_functions()[call.caller.rpartition("-")[0]]


def test_everybody_was_heard(calls: list[Call]) -> None:
    assert {principal(call) for call in calls} == {
        "PlanRole",
        "AggregateRole",
        "ReconcileRole",
        "WorkerRole",
        "DoctorPolicy",
        USER,
    }


def test_every_call_is_allowed(calls: list[Call]) -> None:
    rows = allowed()
    refused = {
        (principal(call), need)
        for call in calls
        for need in call.needs
        if not any(row.principal == principal(call) and row.covers(need) for row in rows)
    }
    assert refused == set()


def test_every_allowed_action_is_used_or_has_its_reason(calls: list[Call]) -> None:
    needed = {(principal(call), need) for call in calls for need in call.needs}
    idle = {
        row
        for row in allowed()
        if not any(row.principal == who and row.covers(need) for who, need in needed)
    }
    assert {row for row in idle if reason_for(row) is None} == set()


def test_a_policy_that_lacks_something_is_noticed(calls: list[Call]) -> None:
    without = [row for row in allowed() if row.action != "s3:PutObject"]
    writes = [call for call in calls if call.operation == "PutObject"]
    assert writes
    for call in writes:
        assert not any(row.covers(call.needs[0]) for row in without)


@pytest.mark.parametrize("role", ["PlanRole", "ReconcileRole"])
def test_starting_workers_and_telling_of_jobs_was_recorded(calls: list[Call], role: str) -> None:
    made = {need for call in calls if principal(call) == role for need in call.needs}
    outputs = ("JobQueue", "OnDemandJobQueue", "JobDefinition")
    assert made >= {Need("batch:SubmitJob", f"WorkerFleet.Outputs.{name}") for name in outputs}
    assert made >= {Need("batch:DescribeComputeEnvironments", "*"), Need("sns:Publish", "Topic")}


@pytest.mark.parametrize("row", allowed(), ids=str)
def test_nobody_may_do_everything(row: Allowed) -> None:
    assert "*" not in row.action
    assert row.resource != "arn:aws:s3:::*"
    if row.resource == "*":
        assert reason_for(row) is not None


def rows_of(name: str) -> Iterator[Allowed]:
    return (row for row in allowed() if row.principal == name)


def test_code_that_a_user_uploads_cannot_change_the_state_of_a_job() -> None:
    writes = {
        row.resource.rpartition("us-east-1")[2]
        for row in rows_of("WorkerRole")
        if row.action == "s3:PutObject"
    }
    assert writes == {"/results/*", "/attempts/*", "/partial/*"}
    assert not [row for row in rows_of("WorkerRole") if row.action == "s3:DeleteObject"]


def test_users_write_what_is_theirs_alone() -> None:
    writes = {
        row.resource.rpartition("us-east-1")[2]
        for row in rows_of(USER)
        if row.action == "s3:PutObject"
    }
    assert writes == {"/jobs/*", "/datasets/*"}


def test_no_reason_outlives_what_it_was_for() -> None:
    rows = allowed()
    stale = {
        key
        for key in JUSTIFIED
        if not any(
            (row.principal, row.action) == key[:2] and row.resource.endswith(key[2]) for row in rows
        )
    }
    assert stale == set()
