"""What must stay true of template.yaml, whoever edits it."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from cfnlint.api import lint_file

from infra.local.template import Intrinsic, load_template
from infra.local.topology import LOCAL_PARAMETERS, LOCAL_PSEUDO, TEMPLATE_PATH, read_topology
from spotgrad.settings import (
    PREFIX,
    AggregateSettings,
    PlanSettings,
    ReconcileSettings,
    Settings,
    variable,
)

NUMBERS = pytest.mark.parametrize(
    "parameters", [{}, LOCAL_PARAMETERS], ids=["cloud defaults", "laptop"]
)
OUTPUTS = ["models", "state", "attempts", "partial", "rejected", "active", "expiring", "fleet"]
OUTPUTS += ["datasets"]
SUFFIXES = [".yaml", ".yml", "control.json", ".safetensors", ".json", "server.safetensors"]


@NUMBERS
def test_a_functions_queue_is_invisible_six_times_as_long_as_it_runs(
    parameters: Mapping[str, str],
) -> None:
    topology = read_topology(parameters=parameters)
    pairs = [
        (topology.queues[source.queue].visibility_seconds, function.timeout_seconds)
        for function in topology.functions.values()
        for source in function.event_sources
    ]
    assert len(pairs) == 2
    for visibility, timeout in pairs:
        assert visibility >= 6 * timeout


@NUMBERS
def test_a_subtask_is_leased_for_the_lease_that_everybody_is_told(
    parameters: Mapping[str, str],
) -> None:
    topology = read_topology(parameters=parameters)
    told = topology.functions["ReconcileFunction"].environment["SPOTGRAD_LEASE_SECONDS"]
    assert str(topology.queues["SubtasksQueue"].visibility_seconds) == told


def test_every_queue_has_a_dead_letter_queue_that_keeps_longer() -> None:
    queues = read_topology().queues
    targets = [queue.redrive.target for queue in queues.values() if queue.redrive]
    assert len(set(targets)) == len(targets) == len(queues) - len(targets)
    for queue in queues.values():
        if queue.redrive:
            assert queue.redrive.max_receives >= 5
            assert queues[queue.redrive.target].retention_seconds == 14 * 86_400
            assert queues[queue.redrive.target].retention_seconds > queue.retention_seconds


def test_interruptions_do_not_send_a_subtask_to_the_dead_letter_queue() -> None:
    redrive = read_topology().queues["SubtasksQueue"].redrive
    assert redrive is not None
    assert redrive.max_receives > 20  # retries.interruptions of a job file


def test_no_output_triggers_anything() -> None:
    listeners = read_topology().bucket.notifications
    keys = [f"{prefix}/digits/000001/x{suffix}" for prefix in OUTPUTS for suffix in SUFFIXES]
    assert not [key for key in keys for listener in listeners if listener.matches(key)]


@pytest.mark.parametrize(
    ("key", "queue"),
    [
        ("jobs/digits/job.yaml", "UploadsQueue"),
        ("jobs/digits/job.yml", "UploadsQueue"),
        ("jobs/digits/control.json", "UploadsQueue"),
        ("results/digits/000001/train-000000/a1.safetensors", "ResultsQueue"),
    ],
)
def test_inputs_trigger_exactly_one_queue(key: str, queue: str) -> None:
    listeners = read_topology().bucket.notifications
    assert [listener.queue for listener in listeners if listener.matches(key)] == [queue]


@pytest.mark.parametrize("key", ["jobs/digits/code-00ff.zip", "results/digits/000001/x/a.json"])
def test_other_uploads_trigger_nothing(key: str) -> None:
    assert not [one for one in read_topology().bucket.notifications if one.matches(key)]


@pytest.mark.parametrize(
    ("function", "settings"),
    [
        ("PlanFunction", PlanSettings),
        ("AggregateFunction", AggregateSettings),
        ("ReconcileFunction", ReconcileSettings),
    ],
)
def test_environments_are_the_settings_fields(function: str, settings: type[Settings]) -> None:
    names = read_topology().functions[function].environment
    ours = {name for name in names if name.startswith(PREFIX)}
    assert ours == {variable(field) for field in settings.model_fields}
    assert all(name.startswith((PREFIX, "POWERTOOLS_")) for name in names)


def test_aggregators_are_not_serialised_and_report_partial_failures() -> None:
    topology = read_topology(parameters={})
    for function in topology.functions.values():
        for source in function.event_sources:
            assert source.maximum_concurrency >= 2
            assert source.report_batch_item_failures
    template = load_template(TEMPLATE_PATH, parameters={}, pseudo=LOCAL_PSEUDO)
    for name in topology.functions:
        assert "ReservedConcurrentExecutions" not in template.properties(name)


def allowed_to(verb: str) -> dict[str, list[str]]:
    """Which resources each role may ``verb``, as the template writes them."""
    template = load_template(TEMPLATE_PATH, parameters={}, pseudo=LOCAL_PSEUDO)
    return {
        role: [
            text
            for policy in template.properties(role)["Policies"]
            for statement in policy["PolicyDocument"]["Statement"]
            if verb in as_list(statement["Action"])
            for text in as_list(statement["Resource"])
        ]
        for role in template.of_type("AWS::IAM::Role")
    }


def as_list(value: object) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [str(item.argument) if isinstance(item, Intrinsic) else str(item) for item in items]


def test_only_reconcile_deletes() -> None:
    deleters = [role for role, resources in allowed_to("s3:DeleteObject").items() if resources]
    assert deleters == ["ReconcileRole"]


@pytest.mark.parametrize("verb", ["s3:PutObject", "s3:DeleteObject"])
def test_functions_leave_alone_what_users_write(verb: str) -> None:
    for role, resources in allowed_to(verb).items():
        for resource in resources:
            assert resource.startswith("${Bucket.Arn}/"), role
            assert not resource.startswith(("${Bucket.Arn}/jobs/", "${Bucket.Arn}/datasets/")), role


def test_a_conditional_write_may_also_read() -> None:
    readable = allowed_to("s3:GetObject")
    for role, written in allowed_to("s3:PutObject").items():
        assert "${Bucket.Arn}/state/*" in written
        assert {"${Bucket.Arn}/state/*", "${Bucket.Arn}/*"} & set(readable[role])


def test_cfn_lint_is_content() -> None:
    assert lint_file(TEMPLATE_PATH) == []


def test_cfn_lint_would_complain(tmp_path: Path) -> None:
    broken = TEMPLATE_PATH.read_text(encoding="utf-8").replace(
        "MessageRetentionPeriod: 1209600", "MessageRetentionPeriod: 1209601"
    )
    path = tmp_path / "template.yaml"
    path.write_text(broken, encoding="utf-8")
    assert lint_file(path) != []
