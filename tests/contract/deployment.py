"""A deployment on moto as ``spotgrad doctor`` sees it: stack, bucket, queues, functions, fleet.

All have the names that CloudFormation would give them: the stack's, then the logical id.
"""

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import boto3

from spotgrad.aws.facts import VERSION_TAG
from tests.contract.fleets import make_fleet
from tests.fakes.environment import DUMMY

NAMES = ("Uploads", "Subtasks", "Results")
ACCOUNT = "123456789012"


@dataclass(frozen=True)
class Deployment:
    """What ``deploy`` made: all by the stack's name."""

    stack: str
    bucket: str
    outputs: dict[str, str]


class Deployer:
    """Makes deployments in one moto server."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._session: Any = boto3.session.Session(ACCOUNT, "testing")

    def client(self, service: str) -> Any:
        return self._session.client(
            service, endpoint_url=self._endpoint, region_name=DUMMY["AWS_REGION"]
        )

    def deploy(self, stack: str, version: str) -> Deployment:
        outputs = {"BucketName": _bucket_name(stack)}
        arns = self._queues(stack, outputs)
        self._bucket(outputs["BucketName"], arns)
        self._functions(stack, outputs, arns)
        queue, definition = make_fleet(self._endpoint, f"{stack}-JobQueue")
        outputs |= {"WorkerJobQueue": queue, "WorkerJobDefinition": definition}
        body = {
            "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
            "Outputs": {name: {"Value": value} for name, value in outputs.items()},
        }
        self.client("cloudformation").create_stack(
            StackName=stack,
            TemplateBody=json.dumps(body),
            Tags=[{"Key": VERSION_TAG, "Value": version}],
        )
        return Deployment(stack, outputs["BucketName"], outputs)

    def stack_of_bucket(self, stack: str) -> str:
        """Make a stack that has a bucket, by the name that template.yaml gives it, and no more."""
        bucket = _bucket_name(stack)
        self.client("s3").create_bucket(Bucket=bucket)
        body = {
            "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
            "Outputs": {"BucketName": {"Value": bucket}},
        }
        self.client("cloudformation").create_stack(StackName=stack, TemplateBody=json.dumps(body))
        return stack

    def _queues(self, stack: str, outputs: dict[str, str]) -> dict[str, str]:
        sqs, arns = self.client("sqs"), dict[str, str]()
        for name in NAMES:
            dead = f"{name}DeadLetter"
            for queue in (dead, name):
                named = f"{stack}-{queue}Queue"
                arns[queue] = f"arn:aws:sqs:{DUMMY['AWS_REGION']}:{ACCOUNT}:{named}"
                redrive = {"deadLetterTargetArn": arns[dead], "maxReceiveCount": 5}
                policy = {"Principal": {"Service": "s3.amazonaws.com"}, "Resource": arns[queue]}
                statement = {"Effect": "Allow", "Action": "sqs:SendMessage", **policy}
                own = {"Policy": json.dumps({"Version": "2012-10-17", "Statement": [statement]})}
                own |= {} if queue == dead else {"RedrivePolicy": json.dumps(redrive)}
                made = sqs.create_queue(QueueName=named, Attributes=own)
                outputs[f"{queue}QueueUrl"] = made["QueueUrl"]
        return arns

    def _bucket(self, bucket: str, arns: dict[str, str]) -> None:
        s3 = self.client("s3")
        s3.create_bucket(Bucket=bucket)
        wanted = [
            ("Uploads", "jobs/", ".yaml"),
            ("Uploads", "jobs/", ".yml"),
            ("Uploads", "jobs/", "control.json"),
            ("Results", "results/", ".safetensors"),
        ]
        s3.put_bucket_notification_configuration(
            Bucket=bucket,
            NotificationConfiguration={
                "QueueConfigurations": [
                    {
                        "QueueArn": arns[queue],
                        "Events": ["s3:ObjectCreated:*"],
                        "Filter": {
                            "Key": {
                                "FilterRules": [
                                    {"Name": "prefix", "Value": prefix},
                                    {"Name": "suffix", "Value": suffix},
                                ]
                            }
                        },
                    }
                    for queue, prefix, suffix in wanted
                ]
            },
        )

    def _functions(self, stack: str, outputs: dict[str, str], arns: dict[str, str]) -> None:
        client = self.client("lambda")
        role = self.client("iam").create_role(
            RoleName=f"{stack}-functions",
            AssumeRolePolicyDocument='{"Version": "2012-10-17", "Statement": []}',
        )["Role"]["Arn"]
        for name, source in (("Plan", "Uploads"), ("Aggregate", "Results"), ("Reconcile", None)):
            function = outputs[f"{name}FunctionName"] = f"{stack}-{name}Function"
            client.create_function(
                FunctionName=function,
                Runtime="python3.13",
                Role=role,
                Handler="app.handler",
                Code={"ZipFile": _zip()},
            )
            if source is not None:
                client.create_event_source_mapping(
                    FunctionName=function, EventSourceArn=arns[source]
                )


def _bucket_name(stack: str) -> str:
    return f"{stack}-{ACCOUNT}-{DUMMY['AWS_REGION']}"


def _zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("app.py", "")
    return made.getvalue()
