"""What the CDK app synthesizes is template.yaml: run by ``make deploy-check``, where the CDK is."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Match, Template
from samtranslator.public.translator import ManagedPolicyLoader
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from infra.cdk.app import make_app
from infra.cdk.pipeline import FUNCTIONS, ROOT, MissingArtifact, SpotgradPipeline
from infra.cdk.properties import PipelineProperties, parameter

IMAGE = PipelineProperties(worker_image="registry/worker:1")
SECTIONS = ("Resources", "Conditions", "Outputs", "Globals", "Transform")


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``sam build`` leaves, as far as the CDK looks at it."""
    folder = tmp_path_factory.mktemp("build")
    for name in FUNCTIONS:
        (folder / name).mkdir()
        (folder / name / "handler.py").write_text(f"# {name}\n", encoding="utf-8")
    return folder


def synthesize(artifacts: Path, properties: PipelineProperties | None = None) -> dict[str, Any]:
    stack = Stack(App(), "spotgrad")
    SpotgradPipeline(stack, "Pipeline", properties=properties, artifacts=artifacts)
    return dict(Template.from_stack(stack).to_json())


def written() -> dict[str, Any]:
    """template.yaml as SAM itself reads it."""
    read: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text(encoding="utf-8"))
    return read


def plain(value: object) -> Any:
    """Both ways to write the same as one: GetAtt and DependsOn as lists, mappings as dicts."""
    if isinstance(value, dict):
        if set(value) == {"Fn::GetAtt"} and isinstance(value["Fn::GetAtt"], str):
            return {"Fn::GetAtt": value["Fn::GetAtt"].split(".", 1)}
        return {key: plain(item) for key, item in value.items()} | _dependencies(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _dependencies(value: dict[str, Any]) -> dict[str, list[str]]:
    named = value.get("DependsOn")
    return {"DependsOn": sorted([named] if isinstance(named, str) else named)} if named else {}


def without_places(template: dict[str, Any]) -> dict[str, Any]:
    """The template but for where code and nested template lie, which is the CDK's business."""
    kept = {name: plain(template[name]) for name in SECTIONS}
    for name in FUNCTIONS:
        kept["Resources"][name]["Properties"].pop("CodeUri", None)
        kept["Resources"][name]["Metadata"] = None
    kept["Resources"]["WorkerFleet"]["Properties"].pop("TemplateURL")
    return kept


def test_the_stack_is_the_template(artifacts: Path) -> None:
    assert without_places(synthesize(artifacts)) == without_places(written())


def test_parameters_that_are_not_given_stay_parameters(artifacts: Path) -> None:
    declared = plain(written()["Parameters"])
    left = synthesize(artifacts)["Parameters"]
    assert {name: plain(body) for name, body in left.items() if name in declared} == declared
    assert set(left) - set(declared) <= {"BootstrapVersion"}  # the CDK's own


def test_a_given_property_takes_its_parameters_place(artifacts: Path) -> None:
    template = synthesize(artifacts, PipelineProperties(lease_seconds=300, worker_image="w:1"))
    assert not {"LeaseSeconds", "WorkerImage"} & set(template["Parameters"])
    assert template["Resources"]["SubtasksQueue"]["Properties"]["VisibilityTimeout"] == 300
    passed = template["Resources"]["WorkerFleet"]["Properties"]["Parameters"]
    assert (passed["WorkerImage"], passed["LeaseSeconds"]) == ("w:1", "300")


def test_every_parameter_has_a_property_and_no_other() -> None:
    assert {parameter(one.name) for one in fields(PipelineProperties)} == set(
        written()["Parameters"]
    )


def test_lists_and_switches_are_written_as_the_template_takes_them() -> None:
    said = PipelineProperties(gpu_instance_types=("g5", "g6"), interface_endpoints=True)
    assert said.parameters() == {"GpuInstanceTypes": "g5,g6", "InterfaceEndpoints": "true"}


def test_functions_get_the_code_that_was_built(artifacts: Path) -> None:
    template = synthesize(artifacts)
    keys = {template["Resources"][name]["Properties"]["CodeUri"]["Key"] for name in FUNCTIONS}
    assert len(keys) == len(FUNCTIONS)


def test_without_a_build_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingArtifact, match="PlanFunction is not there: run `sam build`"):
        synthesize(tmp_path)


def test_the_fleet_is_the_nested_template(artifacts: Path, tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    SpotgradPipeline(Stack(app, "spotgrad"), "Pipeline", properties=IMAGE, artifacts=artifacts)
    app.synth()
    (nested,) = tmp_path.glob("*WorkerFleet*.nested.template.json")
    fleet = yaml_parse((ROOT / "infra/worker_fleet.yaml").read_text(encoding="utf-8"))
    made = json.loads(nested.read_text(encoding="utf-8"))
    for section in ("Resources", "Conditions", "Parameters", "Rules", "Outputs"):
        assert plain(made[section]) == plain(fleet[section]), section


def test_sam_takes_what_is_synthesized(artifacts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transform that CloudFormation applies, offline: local code would be refused by it."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    policies: Any = ManagedPolicyLoader(iam_client=None)
    policies.load = dict
    defaults = {name: body["Default"] for name, body in written()["Parameters"].items()}
    made = transform(synthesize(artifacts), defaults, policies)
    for name in FUNCTIONS:
        function = made["Resources"][name]
        assert function["Type"] == "AWS::Lambda::Function"
        assert set(function["Properties"]["Code"]) == {"S3Bucket", "S3Key"}


def test_others_compose_it_with_their_own(artifacts: Path) -> None:
    stack = Stack(App(), "mine")
    pipeline = SpotgradPipeline(stack, "Pipeline", artifacts=artifacts)
    role = iam.Role(stack, "Scientist", assumed_by=iam.AccountRootPrincipal())
    pipeline.grant_submit(role)
    pipeline.grant_read(role)
    pipeline.subtasks_queue.grant_purge(role)
    pipeline.topic.grant_publish(role)
    pipeline.functions["PlanFunction"].grant_invoke(role)
    Template.from_stack(stack).has_resource_properties(
        "AWS::IAM::Policy",
        {
            "Roles": [{"Ref": Match.string_like_regexp("Scientist.*")}],
            "PolicyDocument": {
                "Statement": Match.array_with(
                    [Match.object_like({"Action": "sns:Publish", "Resource": {"Ref": "Topic"}})]
                )
            },
        },
    )


def test_the_app_has_one_stack_with_its_context_name(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SpotgradPipeline.__init__
    monkeypatch.setattr(
        SpotgradPipeline,
        "__init__",
        lambda self, scope, name: made(self, scope, name, artifacts=artifacts),
    )
    (stack,) = make_app().synth().stacks
    assert stack.stack_name == "spotgrad"


def test_cdk_json_starts_the_app() -> None:
    command = yaml.safe_load((ROOT / "infra/cdk/cdk.json").read_text(encoding="utf-8"))["app"]
    assert command.endswith("python -m infra.cdk.app")
