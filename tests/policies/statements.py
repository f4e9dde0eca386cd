"""What the templates allow, as rows: principal, action, resource pattern.

Only allowing statements without conditions are understood, which is all that our principals have;
anything else is refused here, so that it cannot be misread.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, cast

from infra.local.template import BadTemplate, Intrinsic, QueueUrl, Template, load_template
from infra.local.topology import LOCAL_PARAMETERS, LOCAL_PSEUDO, TEMPLATE_PATH
from tests.policies.calls import Need

FLEET_PATH = TEMPLATE_PATH.parent / "infra" / "worker_fleet.yaml"
POLICY_TYPES = ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy")


@dataclass(frozen=True)
class Allowed:
    """One action on one resource pattern; queues stand for themselves by name."""

    principal: str
    action: str
    resource: str

    def covers(self, need: Need) -> bool:
        """Return whether this allows what is needed."""
        return fnmatchcase(need.action, self.action) and fnmatchcase(need.resource, self.resource)


@cache
def allowed() -> tuple[Allowed, ...]:
    """Return what both templates allow their principals."""
    parameters = {**LOCAL_PARAMETERS, "WorkerImage": "image", "Capacity": "spot-then-on-demand"}
    stack = load_template(TEMPLATE_PATH, parameters=parameters, pseudo=LOCAL_PSEUDO)
    return (*_rows(stack), *_rows(_fleet(stack)))


@cache
def roles_of_functions() -> dict[str, str]:
    """Return the role of each function."""
    stack = load_template(TEMPLATE_PATH, parameters={}, pseudo=LOCAL_PSEUDO)
    names = stack.of_type("AWS::Serverless::Function")
    return {name: stack.properties(name)["Role"].argument.removesuffix(".Arn") for name in names}


def _fleet(stack: Template) -> Template:
    """Load the nested stack as the outer one would pass its parameters."""
    passed = stack.properties("WorkerFleet")["Parameters"]
    values = {name: _text(stack.resolve(value)) for name, value in passed.items()}
    return load_template(FLEET_PATH, parameters=values, pseudo=LOCAL_PSEUDO)


def _text(value: object) -> str:
    return value.logical_id if isinstance(value, QueueUrl) else str(value)


def _rows(template: Template) -> Iterator[Allowed]:
    for kind in POLICY_TYPES:
        for name in template.of_type(kind):
            properties = template.properties(name)
            role = properties.get("RoleName")  # a policy apart counts for the role that has it
            principal = str(role.argument) if isinstance(role, Intrinsic) else name
            for statement in _statements(properties):
                yield from _statement(template, principal, statement)


def _statements(properties: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
    if "PolicyDocument" in properties:
        documents.append(properties["PolicyDocument"])
    return [statement for document in documents for statement in document["Statement"]]


def _statement(
    template: Template, principal: str, statement: Mapping[str, Any]
) -> Iterator[Allowed]:
    for action in _listed(statement["Action"]):
        for resource in _listed(statement["Resource"]):
            text = _resource(template, resource)
            if set(statement) > {"Effect", "Action", "Resource", "Sid"}:
                text += " under a condition"
            assert statement["Effect"] == "Allow"
            yield Allowed(principal, str(action), text)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _resource(template: Template, resource: object) -> str:
    """Return the pattern; of a resource that the local run does not have, as it is written."""
    if isinstance(resource, Intrinsic) and resource.name == "If":
        condition, yes, no = cast("list[Any]", resource.argument)
        return _resource(template, yes if template.conditions[condition] else no)
    if resource == Intrinsic("Ref", "Topic"):
        return "Topic"
    try:
        text = str(template.resolve(resource))
    except BadTemplate:
        return str(resource.argument) if isinstance(resource, Intrinsic) else str(resource)
    return text.rpartition(":")[2] if text.startswith("arn:aws:sqs:") else text


__all__ = ["Allowed", "allowed", "roles_of_functions"]
