"""``SpotgradPipeline``: the whole of template.yaml as one construct, to be composed with others.

The functions' code comes from ``sam build``; the CDK uploads it. Invariant: of the template's
resources nothing is changed but where the code and the nested template lie, and the parameters.
"""

from pathlib import Path

from aws_cdk import Acknowledgment, CfnResource, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_sam as sam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import cloudformation_include as include
from constructs import Construct

from infra.cdk.properties import PipelineProperties

__all__ = ["FUNCTIONS", "ROOT", "MissingArtifact", "SpotgradPipeline"]

ROOT = Path(__file__).resolve().parents[2]
FLEET = "WorkerFleet"
FUNCTIONS = ("PlanFunction", "AggregateFunction", "ReconcileFunction")

CONSTANT_CONDITIONS = Acknowledgment(
    id="CloudFormation-Validate::W8003",
    reason="A property that is given takes its parameter's place, in conditions too.",
)


class MissingArtifact(Exception):
    """A function was not built."""


class SpotgradPipeline(Construct):
    """One pipeline: bucket, queues, functions, alarms and, with an image, a worker fleet.

    Logical ids are those of the template, so one stack holds one pipeline, and its outputs are
    those that ``spotgrad doctor`` reads.

    Attributes:
        bucket: holds everything that a job is.
        subtasks_queue: what workers receive from.
        topic: alarms, and jobs that change their state.
        functions: plan, aggregate and reconcile by their logical ids.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        properties: PipelineProperties | None = None,
        artifacts: Path = ROOT / ".aws-sam/build",
    ) -> None:
        """Include the template.

        Raises:
            MissingArtifact: ``artifacts`` does not hold what ``sam build`` makes of a function.
        """
        super().__init__(scope, construct_id)
        given = properties or PipelineProperties()
        self._template = include.CfnInclude(
            self,
            "Template",
            template_file=str(ROOT / "template.yaml"),
            parameters=given.parameters(),
            load_nested_stacks={
                FLEET: include.CfnIncludeProps(template_file=str(ROOT / "infra/worker_fleet.yaml"))
            },
        )
        Validations.of(Stack.of(self)).acknowledge(CONSTANT_CONDITIONS)
        self.bucket: s3.IBucket = s3.Bucket.from_cfn_bucket(self._bucket())
        self.subtasks_queue: sqs.IQueue = self._queue("SubtasksQueue")
        self.topic: sns.ITopic = sns.Topic.from_topic_arn(
            self, "Topic", self._resource("Topic").ref
        )
        self.functions = {name: self._function(name, artifacts / name) for name in FUNCTIONS}

    def grant_submit(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` push data sets and submit and control jobs.

        A job file names code that workers run: whoever may write ``jobs/`` may do what they may.
        """
        for area in ("jobs/*", "datasets/*"):
            self.bucket.grant_read_write(grantee, area)

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Let ``grantee`` read everything: status, models, reports."""
        self.bucket.grant_read(grantee)

    def _resource(self, logical_id: str) -> CfnResource:
        return self._template.get_resource(logical_id)

    def _bucket(self) -> s3.CfnBucket:
        found = self._resource("Bucket")
        if not isinstance(found, s3.CfnBucket):
            raise TypeError(f"template.yaml: Bucket is a {found.cfn_resource_type}")
        return found

    def _queue(self, logical_id: str) -> sqs.IQueue:
        arn = self._resource(logical_id).get_att("Arn").to_string()
        return sqs.Queue.from_queue_arn(self, logical_id, arn)

    def _function(self, logical_id: str, built: Path) -> lambda_.IFunction:
        if not built.is_dir():
            raise MissingArtifact(f"{built} is not there: run `sam build` first")
        found = self._resource(logical_id)
        if not isinstance(found, sam.CfnFunction):
            raise TypeError(f"template.yaml: {logical_id} is a {found.cfn_resource_type}")
        code = assets.Asset(self, f"{logical_id}Code", path=str(built))
        found.code_uri = sam.CfnFunction.S3LocationProperty(
            bucket=code.s3_bucket_name, key=code.s3_object_key
        )
        return lambda_.Function.from_function_name(self, logical_id, found.ref)
