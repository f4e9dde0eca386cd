"""What must stay true of infra/worker_fleet.yaml: cost while idle, who gets in, who retries."""

import email
import email.policy
from typing import Any, cast

import pytest
from cfnlint.api import lint_file

from infra.local.template import Intrinsic, Template, load_template
from infra.local.topology import LOCAL_PSEUDO, TEMPLATE_PATH
from spotgrad.settings import WorkerSettings, variable
from worker_image import exit_codes
from worker_image.__main__ import main

PATH = TEMPLATE_PATH.parent / "infra/worker_fleet.yaml"
OUTER = load_template(TEMPLATE_PATH, parameters={}, pseudo=LOCAL_PSEUDO)
INNER_ALONE = {"BucketName": "bucket", "SubtasksQueueUrl": "url", "SubtasksQueueArn": "arn"}
NO_RESOURCES = {  # https://docs.aws.amazon.com/service-authorization/latest/reference/
    *("ecr:GetAuthorizationToken", "ecs:DiscoverPollEndpoint", "ec2:DescribeTags"),
    *("batch:ListJobs", "batch:DescribeJobQueues", "batch:DescribeComputeEnvironments"),
    *("xray:PutTraceSegments", "xray:PutTelemetryRecords"),
}


def fleet(**parameters: str) -> Template:
    """The fleet as template.yaml nests it, with these values for parameters."""
    outer = {name: str(value) for name, value in OUTER.values.items() if "::" not in name}
    declared = {name: outer[name] for name in PASSED if name in outer}
    values = {**declared, **INNER_ALONE, "WorkerImage": "worker:1", **parameters}
    return load_template(PATH, parameters=values, pseudo=LOCAL_PSEUDO)


PASSED = load_template(
    TEMPLATE_PATH, parameters={"WorkerImage": "worker:1"}, pseudo=LOCAL_PSEUDO
).properties("WorkerFleet")["Parameters"]


def environments(**parameters: str) -> dict[str, Any]:
    template = fleet(**parameters)
    names = template.of_type("AWS::Batch::ComputeEnvironment")
    return {name: template.properties(name)["ComputeResources"] for name in names}


def container(**parameters: str) -> Any:
    return fleet(**parameters).properties("JobDefinition")["ContainerProperties"]


@pytest.mark.parametrize("capacity", ["spot", "spot-then-on-demand", "on-demand"])
def test_idle_no_instance_runs(capacity: str) -> None:
    for resources in environments(Capacity=capacity).values():
        assert resources["MinvCpus"] == 0
        assert "DesiredvCpus" not in resources


@pytest.mark.parametrize(
    ("capacity", "kinds"),
    [("spot", ["SPOT"]), ("spot-then-on-demand", ["SPOT", "EC2"]), ("on-demand", ["EC2"])],
)
def test_capacity_is_what_was_asked_for(capacity: str, kinds: list[str]) -> None:
    assert [one["Type"] for one in environments(Capacity=capacity).values()] == kinds


@pytest.mark.parametrize(
    ("capacity", "queues"),
    [
        ("spot", {"JobQueue": ["SpotEnvironment"]}),
        (
            "spot-then-on-demand",
            {
                "JobQueue": ["SpotEnvironment", "OnDemandEnvironment"],
                "OnDemandQueue": ["OnDemandEnvironment"],
            },
        ),
        ("on-demand", {"JobQueue": ["OnDemandEnvironment"]}),
    ],
)
def test_what_may_not_be_interrupted_has_a_queue_without_spot(
    capacity: str, queues: dict[str, list[str]]
) -> None:
    template = fleet(Capacity=capacity)
    orders = {
        name: template.properties(name)["ComputeEnvironmentOrder"]
        for name in template.of_type("AWS::Batch::JobQueue")
    }
    assert {name: asked_in_order(template, order) for name, order in orders.items()} == queues
    assert template.conditions["HasOnDemand"] == (capacity != "spot")  # of the output


def asked_in_order(template: Template, order: Any) -> list[str]:
    """The compute environments of a queue, with every If of its order decided."""
    if isinstance(order, Intrinsic):
        assert order.name in {"If", "Ref"}
        if order.name == "Ref":
            return []  # AWS::NoValue
        name, yes, no = cast("list[Any]", order.argument)
        return asked_in_order(template, yes if template.conditions[name] else no)
    if isinstance(order, list):
        return [name for one in order for name in asked_in_order(template, one)]
    return [order["ComputeEnvironment"].argument]


def test_spot_is_chosen_by_price_and_capacity_among_several_families() -> None:
    (spot,) = environments().values()
    assert spot["AllocationStrategy"] == "SPOT_PRICE_CAPACITY_OPTIMIZED"
    for kind in ("GpuInstanceTypes", "CpuInstanceTypes"):
        assert len(str(OUTER.values[kind]).split(",")) >= 3


def test_a_fleet_of_cpus_asks_for_no_gpu() -> None:
    assert fleet().conditions["HasGpus"]
    assert not fleet(WorkerGpus="0").conditions["HasGpus"]
    asked = container(WorkerGpus="0")["ResourceRequirements"]
    gpu = [one for one in asked if isinstance(one, Intrinsic)]
    assert [one.argument[0] for one in gpu if isinstance(one.argument, list)] == ["HasGpus"]


def test_nothing_comes_in() -> None:
    template = fleet(InterfaceEndpoints="true")
    assert "SecurityGroupIngress" not in template.properties("WorkerSecurityGroup")
    assert template.of_type("AWS::EC2::SecurityGroupIngress") == []
    (rule,) = template.properties("EndpointSecurityGroup")["SecurityGroupIngress"]
    assert rule["SourceSecurityGroupId"] == Intrinsic("Ref", "WorkerSecurityGroup")


def test_what_costs_while_idle_is_there_only_when_asked_for() -> None:
    endpoints = {
        name: fleet().properties(name)["VpcEndpointType"]
        for name in fleet().of_type("AWS::EC2::VPCEndpoint")
    }
    assert endpoints == {"S3Endpoint": "Gateway"}  # free
    assert fleet().of_type("AWS::EC2::NatGateway") == fleet().of_type("AWS::EC2::EIP") == []
    asked = fleet(InterfaceEndpoints="true").of_type("AWS::EC2::VPCEndpoint")
    assert set(asked) - set(endpoints) == {
        *("SqsEndpoint", "EcrApiEndpoint", "EcrImageEndpoint", "LogsEndpoint"),
    }


def test_an_existing_network_is_left_as_it_is() -> None:
    template = fleet(VpcId="vpc-1", SubnetIds="subnet-1,subnet-2")
    network = [name for name, body in template.resources.items() if "::EC2::" in body["Type"]]
    assert network == ["WorkerSecurityGroup", "LaunchTemplate"]


def test_two_zones_have_no_third_subnet() -> None:
    assert "SubnetC" in fleet().resources
    assert not {"SubnetC", "RouteC"} & set(fleet(ZoneCount="2").resources)


def machine() -> Any:
    return fleet().properties("LaunchTemplate")["LaunchTemplateData"]


def test_instances_keep_their_credentials_to_themselves() -> None:
    options = machine()["MetadataOptions"]
    assert (options["HttpTokens"], options["HttpPutResponseHopLimit"]) == ("required", 2)
    assert all(one["Ebs"]["Encrypted"] for one in machine()["BlockDeviceMappings"])
    assert {one["Ebs"]["VolumeType"] for one in machine()["BlockDeviceMappings"]} == {"gp3"}


def test_the_user_data_is_what_batch_takes_and_drains_on_a_notice() -> None:
    text = machine()["UserData"]["Fn::Base64"]
    message = email.message_from_string(text, policy=email.policy.default)
    assert message.get_content_type() == "multipart/mixed"  # Batch adds a part of its own
    (part,) = message.iter_parts()
    assert part.get_content_type() == "text/x-shellscript"
    script = part.get_content()
    assert script.lstrip().startswith("#!/bin/bash")
    assert "ECS_ENABLE_SPOT_INSTANCE_DRAINING=true" in script
    assert "ECS_CONTAINER_STOP_TIMEOUT=120s" in script  # the most that Spot leaves


def test_the_cache_is_where_the_worker_looks_for_it() -> None:
    (mount,) = container()["MountPoints"]
    (volume,) = container()["Volumes"]
    assert volume["Host"]["SourcePath"] in machine()["UserData"]["Fn::Base64"]
    told = {row["Name"]: row["Value"] for row in container()["Environment"]}
    assert told["SPOTGRAD_CACHE_DIRECTORY"] == mount["ContainerPath"]


def test_the_environment_is_fields_of_the_workers_settings() -> None:
    told = {row["Name"] for row in container()["Environment"]}
    fields = WorkerSettings.model_fields
    assert told - {"AWS_REGION"} <= {variable(name) for name in fields}
    assert {variable(name) for name, field in fields.items() if field.is_required()} <= told


def test_the_command_is_one_that_the_worker_takes(capsys: pytest.CaptureFixture[str]) -> None:
    option, value = container()["Command"]
    assert value == Intrinsic("Sub", "${WorkerIdleSeconds}")
    with pytest.raises(SystemExit):
        main([option, "never"])
    assert f"argument {option}: invalid" in capsys.readouterr().err


def test_batch_retries_what_another_machine_may_mend_and_nothing_else() -> None:
    strategy = fleet().properties("JobDefinition")["RetryStrategy"]
    rules = strategy["EvaluateOnExit"]
    assert len(rules) <= 5  # AWS Batch
    codes = {int(rule["OnExitCode"]) for rule in rules if "OnExitCode" in rule}
    assert codes == {exit_codes.RETRY, exit_codes.GPU, exit_codes.DISK}
    assert rules[0] == {"OnStatusReason": "Host EC2*", "Action": "RETRY"}
    assert rules[-1] == {"OnReason": "*", "Action": "EXIT"}  # no match means: try again
    assert [rule["Action"] for rule in rules[:-1]] == ["RETRY"] * (len(rules) - 1)


def test_a_worker_that_hangs_ends_some_day() -> None:
    assert "Timeout" in fleet().properties("JobDefinition")


def statements(template: Template) -> list[Any]:
    roles = [template.properties(name) for name in template.of_type("AWS::IAM::Role")]
    documents = [policy["PolicyDocument"] for role in roles for policy in role["Policies"]]
    documents += [
        template.properties(name)["PolicyDocument"]
        for name in template.of_type("AWS::IAM::RolePolicy")
    ]
    return [statement for document in documents for statement in document["Statement"]]


@pytest.mark.parametrize(
    "template",
    [fleet(), load_template(TEMPLATE_PATH, parameters={"WorkerImage": "i"}, pseudo=LOCAL_PSEUDO)],
    ids=["fleet", "stack"],
)
def test_a_wildcard_stands_only_where_there_is_nothing_to_name(template: Template) -> None:
    assert statements(template)
    for statement in statements(template):
        actions = statement["Action"]
        actions = actions if isinstance(actions, list) else [actions]
        assert not [action for action in actions if action.endswith("*")]
        if statement["Resource"] == "*":
            assert set(actions) <= NO_RESOURCES


def test_training_code_writes_only_what_workers_write() -> None:
    written = [
        resource.argument
        for policy in fleet().properties("WorkerRole")["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "s3:PutObject"
        for resource in statement["Resource"]
    ]
    bucket = "arn:${AWS::Partition}:s3:::${BucketName}"
    assert written == [f"{bucket}/{area}/*" for area in ("results", "attempts", "partial")]


def test_cfn_lint_is_content() -> None:
    assert lint_file(PATH) == []
