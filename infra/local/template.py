"""template.yaml as data: YAML with CloudFormation's tags, parameters, and the intrinsics we use.

Not a CloudFormation engine: only ``Ref``, ``GetAtt`` and ``Sub``, only towards buckets, queues and
parameters, in the text forms that template.yaml holds, and ``If`` on conditions over parameters.
Whatever else is met raises ``BadTemplate``, so the laptop can never quietly run another topology
than the cloud. A resource whose condition does not hold is not there.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spotgrad.errors import Reject

BUCKET = "AWS::S3::Bucket"
QUEUE = "AWS::SQS::Queue"
TOPIC = "AWS::SNS::Topic"

_PLACEHOLDER = re.compile(r"\$\{(!?)([^}]+)\}")


class BadTemplate(Reject):
    """The template, or a value given for one of its parameters, cannot be used here."""


@dataclass(frozen=True)
class Intrinsic:
    """One call of an intrinsic function, as written: ``!Ref X`` is ``Intrinsic("Ref", "X")``."""

    name: str
    argument: object


@dataclass(frozen=True)
class QueueUrl:
    """A queue's URL: the one value that is known only once the queue exists."""

    logical_id: str


@dataclass(frozen=True)
class Template:
    """The parsed template and the values of its parameters and pseudo-parameters."""

    resources: Mapping[str, Mapping[str, Any]]
    function_globals: Mapping[str, Any]
    values: Mapping[str, str | int]
    conditions: Mapping[str, bool]

    def of_type(self, resource_type: str) -> list[str]:
        """Return the logical ids of the resources of this type, in the template's order."""
        return [name for name, body in self.resources.items() if body["Type"] == resource_type]

    def properties(self, logical_id: str) -> Mapping[str, Any]:
        """Return a resource's properties, not yet resolved."""
        properties: Mapping[str, Any] = self.resources[logical_id].get("Properties", {})
        return properties

    def resolve(self, value: object) -> Any:
        """Return ``value`` with every intrinsic in it replaced.

        Raises:
            BadTemplate: an intrinsic, or what it points at, is not supported here.
        """
        if isinstance(value, Intrinsic):
            return self._call(value)
        if isinstance(value, Mapping):
            return {key: self.resolve(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        return value

    def queue_name(self, logical_id: str) -> str:
        """Return the queue's name: the given one, else ``<stack>-<logical id>``."""
        given = self.properties(logical_id).get("QueueName")
        return (
            str(self.resolve(given)) if given else f"{self.values['AWS::StackName']}-{logical_id}"
        )

    def arn(self, logical_id: str) -> str:
        """Return the ARN of a queue or bucket; both follow from their names."""
        kind = self._type_of(logical_id)
        if kind == BUCKET:
            return f"arn:{self.values['AWS::Partition']}:s3:::{self._ref(logical_id)}"
        if kind == QUEUE:
            where = f"{self.values['AWS::Region']}:{self.values['AWS::AccountId']}"
            return f"arn:{self.values['AWS::Partition']}:sqs:{where}:{self.queue_name(logical_id)}"
        raise BadTemplate(f"{logical_id}: the local run knows no Arn of a {kind}")

    def _call(self, call: Intrinsic) -> object:
        if call.name == "If":
            return self._if(call.argument)
        known: dict[str, Callable[[Any], object]] = {
            "Ref": self._ref,
            "GetAtt": self._get_att,
            "Sub": self._sub,
        }
        if call.name not in known or not isinstance(call.argument, str):
            raise BadTemplate(
                f"!{call.name} {call.argument}: the local run resolves only {', '.join(known)} "
                "with a text argument; write it that way in template.yaml"
            )
        return known[call.name](call.argument)

    def _if(self, argument: object) -> object:
        match argument:
            case [str(name), yes, no] if name in self.conditions:
                return self.resolve(yes if self.conditions[name] else no)
        raise BadTemplate(f"!If {argument}: needs a condition of the template and two values")

    def _ref(self, name: str) -> object:
        if name in self.values:
            return self.values[name]
        kind = self._type_of(name)
        if kind == QUEUE:
            return QueueUrl(name)
        if kind == BUCKET:
            return self.resolve(self.properties(name)["BucketName"])
        if kind == TOPIC:
            return ""  # nobody subscribes to a laptop: the functions are told of no topic
        raise BadTemplate(f"!Ref {name}: the local run has no value for a {kind}")

    def _get_att(self, path: str) -> str:
        logical_id, _, attribute = path.partition(".")
        if attribute != "Arn":
            raise BadTemplate(f"!GetAtt {path}: the local run knows only .Arn")
        return self.arn(logical_id)

    def _sub(self, text: str) -> str:
        return _PLACEHOLDER.sub(self._placeholder, text)

    def _placeholder(self, match: re.Match[str]) -> str:
        literal, name = match.groups()
        if literal:
            return "${" + name + "}"
        value = self._get_att(name) if "." in name else self._ref(name)
        if isinstance(value, QueueUrl):
            raise BadTemplate(f"!Sub ${{{name}}}: a queue's URL is known too late; use !Ref alone")
        return str(value)

    def _type_of(self, logical_id: str) -> str:
        if logical_id not in self.resources:
            raise BadTemplate(f"{logical_id}: neither a parameter nor a resource of the template")
        return str(self.resources[logical_id]["Type"])


def load_template(
    path: Path, *, parameters: Mapping[str, str], pseudo: Mapping[str, str]
) -> Template:
    """Read the template with these values for its parameters and pseudo-parameters.

    Raises:
        BadTemplate: a parameter does not exist, has no value, or is out of its range.
    """
    document = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 -- a SafeLoader
    values = {**pseudo, **_parameter_values(document.get("Parameters", {}), parameters)}
    shared = document.get("Globals", {}).get("Function", {})
    declared = document.get("Conditions", {})
    conditions = {name: _holds(body, declared, values) for name, body in declared.items()}
    resources = {
        name: body
        for name, body in document["Resources"].items()
        if "Condition" not in body or conditions[body["Condition"]]
    }
    return Template(resources, shared, values, conditions)


def _holds(
    condition: object, declared: Mapping[str, object], values: Mapping[str, str | int]
) -> bool:
    """Return whether a condition over parameters holds; it may name other conditions."""
    match condition:
        case Intrinsic("Not", [one]):
            return not _holds(one, declared, values)
        case Intrinsic("And", list(several)):
            return all(_holds(one, declared, values) for one in several)
        case Intrinsic("Or", list(several)):
            return any(_holds(one, declared, values) for one in several)
        case Intrinsic("Condition", str(name)) if name in declared:
            return _holds(declared[name], declared, values)
        case Intrinsic("Equals", [one, other]):
            return _parameter(one, values) == _parameter(other, values)
    raise BadTemplate(f"condition {condition}: the local run knows Not, And, Or, Equals, Condition")


def _parameter(operand: object, values: Mapping[str, str | int]) -> str:
    match operand:
        case Intrinsic("Ref", str(name)) if name in values:
            return str(values[name])
        case str() | int():
            return str(operand)
    raise BadTemplate(f"condition: {operand} is neither a text nor a parameter")


def _parameter_values(
    declared: Mapping[str, Mapping[str, Any]], given: Mapping[str, str]
) -> dict[str, str | int]:
    unknown = sorted(set(given) - set(declared))
    if unknown:
        raise BadTemplate(f"parameter {unknown[0]}: not one of {', '.join(declared)}")
    return {name: _parameter_value(name, body, given.get(name)) for name, body in declared.items()}


def _parameter_value(name: str, declared: Mapping[str, Any], given: str | None) -> str | int:
    value = declared.get("Default") if given is None else given
    if value is None:
        raise BadTemplate(f"parameter {name}: has no default and none was given")
    if declared["Type"] != "Number":
        return str(value)
    number = int(value)
    low, high = declared.get("MinValue", number), declared.get("MaxValue", number)
    if not low <= number <= high:
        raise BadTemplate(f"parameter {name}: {number} is not between {low} and {high}")
    return number


class _Loader(yaml.SafeLoader):
    """SafeLoader that keeps ``!Something`` as an ``Intrinsic``."""


def _construct(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> Intrinsic:
    if isinstance(node, yaml.ScalarNode):
        return Intrinsic(name, loader.construct_scalar(node))
    if isinstance(node, yaml.SequenceNode):
        return Intrinsic(name, loader.construct_sequence(node, deep=True))
    return Intrinsic(name, loader.construct_mapping(node, deep=True))  # type: ignore[arg-type]  # the third kind of node


_Loader.add_multi_constructor("!", _construct)
