"""What must stay true of the stack around the pipeline: alarms, dashboard, outputs, fleet."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.local.template import Intrinsic, Template, load_template
from infra.local.topology import LOCAL_PSEUDO, TEMPLATE_PATH, read_topology

ROOT = TEMPLATE_PATH.parent
FLEET = {"WorkerImage": "registry/worker:1", "NotificationEmail": "somebody@example.com"}
AGREED_OUTPUTS = {
    *("BucketName", "SubtasksQueueUrl", "UploadsQueueUrl", "ResultsQueueUrl", "TopicArn"),
    *("SubtasksDeadLetterQueueUrl", "UploadsDeadLetterQueueUrl", "ResultsDeadLetterQueueUrl"),
    *("PlanFunctionName", "AggregateFunctionName", "ReconcileFunctionName"),
    *("WorkerImage", "WorkerJobQueue", "WorkerJobDefinition", "WorkerComputeEnvironment"),
    *("WorkerOnDemandJobQueue", "DoctorPolicyArn", "UserPolicyArn"),
}


def stack(**parameters: str) -> Template:
    return load_template(TEMPLATE_PATH, parameters=parameters, pseudo=LOCAL_PSEUDO)


def document(path: Path) -> dict[str, Any]:
    """The file as YAML, every tag of CloudFormation's as a plain text."""
    text = re.sub(r"!(\w+)", "", path.read_text(encoding="utf-8"))
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def alarms() -> dict[str, Any]:
    template = stack()
    names = template.of_type("AWS::CloudWatch::Alarm")
    return {name: template.properties(name) for name in names}


def dimension(alarm: Any) -> str:
    """The logical id, or the text, that an alarm's one dimension points at."""
    (row,) = alarm["Dimensions"]
    value = row["Value"]
    return str(value.argument).partition(".")[0] if isinstance(value, Intrinsic) else str(value)


def test_every_dead_letter_queue_has_an_alarm_at_the_first_message() -> None:
    queues = read_topology().queues.values()
    graves = {queue.redrive.target for queue in queues if queue.redrive}
    watched = {
        dimension(alarm): (alarm["Threshold"], alarm["ComparisonOperator"])
        for alarm in alarms().values()
        if alarm["MetricName"] == "ApproximateNumberOfMessagesVisible"
    }
    assert watched == dict.fromkeys(graves, (1, "GreaterThanOrEqualToThreshold"))


def test_every_functions_errors_have_an_alarm() -> None:
    watched = {dimension(one) for one in alarms().values() if one["MetricName"] == "Errors"}
    assert watched == set(read_topology().functions)


def test_every_alarm_reaches_the_topic() -> None:
    for name, alarm in alarms().items():
        assert alarm["AlarmActions"] == [Intrinsic("Ref", "Topic")], name
        assert alarm["TreatMissingData"] == "notBreaching", name


def our_metrics() -> set[tuple[str, str]]:
    """Metric and function of each metric of ours that an alarm or the dashboard names."""
    named = {
        (alarm["MetricName"], dimension(alarm))
        for alarm in alarms().values()
        if alarm["Namespace"] == "spotgrad"
    }
    return named | {(row[1], row[3]) for row in dashboard_rows() if row[0] == "spotgrad"}


def dashboard_rows() -> list[list[str]]:
    body = stack().properties("Dashboard")["DashboardBody"].argument
    widgets = json.loads(body)["widgets"]
    return [row for widget in widgets for row in widget["properties"]["metrics"]]


def test_what_is_watched_is_measured() -> None:
    measured = (ROOT / "functions/runtime.py").read_text(encoding="utf-8")
    watched = our_metrics()
    assert ("StalledJobs", "reconcile") in watched
    assert ("BudgetUsedPercent", "reconcile") in watched
    for metric, function in watched:
        app = (ROOT / "functions" / function / "app.py").read_text(encoding="utf-8")
        assert f'add_metric("{metric}"' in app + measured, metric


def test_the_dashboard_shows_what_the_stack_has() -> None:
    resources = stack().resources
    named = {match for row in dashboard_rows() for match in re.findall(r"\$\{(\w+)", " ".join(row))}
    assert named <= set(resources)
    topology = read_topology()
    assert named == {*topology.queues, *topology.functions}


def test_the_outputs_are_those_that_the_command_line_reads() -> None:
    outputs = document(TEMPLATE_PATH)["Outputs"]
    assert set(outputs) >= AGREED_OUTPUTS
    conditional = {name for name, body in outputs.items() if "Condition" in body}
    assert conditional == {name for name in outputs if name.startswith("Worker")}


def test_every_parameter_says_what_it_is_and_has_a_default() -> None:
    for name, body in document(TEMPLATE_PATH)["Parameters"].items():
        assert body["Description"].endswith("."), name
        assert "Default" in body, name


def test_without_an_image_there_is_no_fleet_and_nobody_may_start_one() -> None:
    assert stack().of_type("AWS::CloudFormation::Stack") == []
    assert stack().of_type("AWS::IAM::RolePolicy") == []
    assert stack(**FLEET).of_type("AWS::CloudFormation::Stack") == ["WorkerFleet"]
    starters = stack(**FLEET).of_type("AWS::IAM::RolePolicy")
    assert starters == ["PlanStartsWorkers", "ReconcileStartsWorkers"]


@pytest.mark.parametrize("function", ["PlanFunction", "ReconcileFunction"])
@pytest.mark.parametrize("capacity", ["spot", "spot-then-on-demand", "on-demand"])
def test_functions_know_a_queue_on_demand_where_the_fleet_has_one(
    function: str, capacity: str
) -> None:
    told = stack(**FLEET, Capacity=capacity)
    variables = told.properties(function)["Environment"]["Variables"]
    queue = variables["SPOTGRAD_ON_DEMAND_JOB_QUEUE"].argument
    assert queue == [
        "HasOnDemandFleet",
        Intrinsic("GetAtt", "WorkerFleet.Outputs.OnDemandJobQueue"),
        "",
    ]
    assert told.conditions["HasOnDemandFleet"] == (capacity != "spot")
    assert not stack(Capacity=capacity).conditions["HasOnDemandFleet"]  # without an image


def test_mail_is_sent_only_where_somebody_asked_for_it() -> None:
    assert stack().of_type("AWS::SNS::Subscription") == []
    assert stack(**FLEET).of_type("AWS::SNS::Subscription") == ["TopicMail"]


def test_the_fleet_is_given_every_parameter_and_keeps_no_default_of_its_own() -> None:
    fleet = document(ROOT / "infra/worker_fleet.yaml")["Parameters"]
    given = stack(**FLEET).properties("WorkerFleet")["Parameters"]
    assert set(given) == set(fleet)
    assert [name for name, body in fleet.items() if "Default" in body] == []


@pytest.mark.parametrize("limit", ["MinValue", "MaxValue", "AllowedValues", "Description"])
def test_both_templates_say_the_same_of_a_parameter(limit: str) -> None:
    outer = document(TEMPLATE_PATH)["Parameters"]
    for name, body in document(ROOT / "infra/worker_fleet.yaml")["Parameters"].items():
        if name in outer and name not in {"LeaseSeconds", "LogRetentionDays", "WorkerImage"}:
            assert body.get(limit) == outer[name].get(limit), name


def test_the_workers_lease_is_that_of_the_queue() -> None:
    given = stack(**FLEET).properties("WorkerFleet")["Parameters"]
    assert given["LeaseSeconds"] == Intrinsic("Ref", "LeaseSeconds")
    assert stack().properties("SubtasksQueue")["VisibilityTimeout"] == given["LeaseSeconds"]


def test_functions_are_built_from_their_own_folder() -> None:
    template = stack()
    assert (
        template.function_globals["CodeUri"] == "functions/"
    )  # never ".": it would take .venv too
    for name in read_topology().functions:
        assert "CodeUri" not in template.properties(name)
        assert template.resources[name]["Metadata"]["BuildMethod"] == "makefile"
