from pathlib import Path

import pytest

from infra.local.template import BadTemplate, QueueUrl, load_template
from infra.local.topology import LOCAL_PSEUDO

TINY = """
Parameters:
  Seconds: {Type: Number, Default: 3, MinValue: 2, MaxValue: 9}
  Label: {Type: String, Default: plain}
  Wanted: {Type: String}
Conditions:
  IsPlain: !Equals [!Ref Label, plain]
  IsNot: !Not [!Condition IsPlain]
  IsThree: !And [!Condition IsPlain, !Equals [!Ref Seconds, 3]]
  IsEither: !Or [!Condition IsNot, !Condition IsThree]
Resources:
  Absent: {Type: AWS::SQS::Queue, Condition: IsNot}
  Present: {Type: AWS::SQS::Queue, Condition: IsEither}
  Heard: {Type: AWS::SNS::Topic}
  Store:
    Type: AWS::S3::Bucket
    Properties: {BucketName: !Sub "${AWS::StackName}-${Label}"}
  Work: {Type: AWS::SQS::Queue}
  Named: {Type: AWS::SQS::Queue, Properties: {QueueName: !Sub "q-${Seconds}"}}
  Role: {Type: AWS::IAM::Role}
  Probe:
    Type: Test::Probe
    Properties: {Value: VALUE}
"""


def resolve(tmp_path: Path, value: str, **parameters: str) -> object:
    path = tmp_path / "template.yaml"
    path.write_text(TINY.replace("VALUE", value), encoding="utf-8")
    given = {"Wanted": "given", **parameters}
    template = load_template(path, parameters=given, pseudo=LOCAL_PSEUDO)
    return template.resolve(template.properties("Probe"))["Value"]


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        ("plain", "plain"),
        ("!Ref Seconds", 3),
        ("!Ref Wanted", "given"),
        ("!Ref AWS::Region", "us-east-1"),
        ("!Ref Store", "spotgrad-plain"),
        ("!Ref Work", QueueUrl("Work")),
        ("!GetAtt Work.Arn", "arn:aws:sqs:us-east-1:123456789012:spotgrad-Work"),
        ("!GetAtt Named.Arn", "arn:aws:sqs:us-east-1:123456789012:q-3"),
        ("!GetAtt Store.Arn", "arn:aws:s3:::spotgrad-plain"),
        ('!Sub "${Store.Arn}/jobs/*"', "arn:aws:s3:::spotgrad-plain/jobs/*"),
        ('!Sub "${Label}-${!Label}-${Seconds}"', "plain-${Label}-3"),
        ("[!Ref Label, {deep: !Ref Seconds}]", ["plain", {"deep": 3}]),
        ('!If [IsPlain, !Ref Label, ""]', "plain"),
        ("!If [IsNot, !GetAtt Role.Arn, {deep: !Ref Seconds}]", {"deep": 3}),
        ("!If [IsEither, 1, 2]", 1),
        ("!Ref Heard", ""),
    ],
)
def test_values(tmp_path: Path, written: str, resolved: object) -> None:
    assert resolve(tmp_path, written) == resolved


def test_an_override_replaces_the_default(tmp_path: Path) -> None:
    assert resolve(tmp_path, "!Ref Seconds", Seconds="7") == 7
    assert resolve(tmp_path, "!Ref Store", Label="other") == "spotgrad-other"


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ('!Join ["-", [a, b]]', r"!Join .*only Ref, GetAtt, Sub"),
        ("!If [Unknown, b, c]", r"!If .*needs a condition of the template"),
        ("!If [IsPlain, b]", r"!If .*two values"),
        ("!Ref Absent", r"Absent: neither a parameter nor a resource"),
        ("!GetAtt [Work, Arn]", r"!GetAtt .*text argument"),
        ("!Sub {a: b}", r"!Sub .*text argument"),
        ("!GetAtt Work.QueueName", r"Work.QueueName: .*only .Arn"),
        ("!GetAtt Role.Arn", r"Role: .*AWS::IAM::Role"),
        ("!Ref Role", r"Role: .*AWS::IAM::Role"),
        ("!Ref Nothing", r"Nothing: neither a parameter nor a resource"),
        ('!Sub "x-${Work}"', r"Work.*use !Ref alone"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, written: str, complaint: str
) -> None:
    with pytest.raises(BadTemplate, match=complaint):
        resolve(tmp_path, written)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"Secnds": "3"}, "Secnds: not one of Seconds"),
        ({"Seconds": "1"}, "Seconds: 1 is not between 2 and 9"),
        ({"Seconds": "10"}, "Seconds: 10 is not between 2 and 9"),
    ],
)
def test_parameters_are_checked(tmp_path: Path, parameters: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadTemplate, match=complaint):
        resolve(tmp_path, "x", **parameters)


def test_a_parameter_without_value_is_named(tmp_path: Path) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(TINY, encoding="utf-8")
    with pytest.raises(BadTemplate, match="Wanted: has no default"):
        load_template(path, parameters={}, pseudo=LOCAL_PSEUDO)


def test_a_resource_whose_condition_does_not_hold_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(TINY, encoding="utf-8")

    def queues(**parameters: str) -> list[str]:
        given = {"Wanted": "given", **parameters}
        return load_template(path, parameters=given, pseudo=LOCAL_PSEUDO).of_type("AWS::SQS::Queue")

    assert queues() == ["Present", "Work", "Named"]
    assert queues(Label="other") == ["Absent", "Present", "Work", "Named"]
    assert queues(Seconds="4") == ["Work", "Named"]


@pytest.mark.parametrize(
    "condition",
    ["!Contains [a, b]", "!Not [a, b]", "!Condition Unknown", "!Equals [!GetAtt Work.Arn, a]", "a"],
)
def test_other_conditions_are_refused(tmp_path: Path, condition: str) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(f"Conditions: {{Odd: {condition}}}\nResources: {{}}", encoding="utf-8")
    with pytest.raises(BadTemplate, match="condition"):
        load_template(path, parameters={}, pseudo=LOCAL_PSEUDO)
