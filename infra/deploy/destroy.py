"""Taking a deployment away: the stack by sam, then its bucket, which CloudFormation retains.

Invariant: a bucket that holds data is deleted only when ``delete_data`` was said, and only after
the stack is gone; whoever keeps it keeps every model.
"""

from dataclasses import dataclass

from infra.deploy.sam import Run, delete_command
from spotgrad.aws.clients import Clients
from spotgrad.aws.facts import Account
from spotgrad.aws.removal import count_objects, delete_bucket
from spotgrad.cli.output import Output
from spotgrad.errors import Reject
from spotgrad.settings import MissingSetting

__all__ = ["Consent", "Destroyed", "destroy"]


@dataclass(frozen=True)
class Consent:
    """What the person said beforehand."""

    delete_data: bool
    ask: bool
    """Whether sam is to ask before it deletes the stack."""


@dataclass(frozen=True)
class Destroyed:
    """What became of the deployment."""

    stack: str
    bucket: str
    bucket_deleted: bool


class StackStays(Reject):
    """The stack is still there after sam delete: somebody said no, or it could not be deleted."""


def destroy(
    stack: str, account: Account, clients: Clients, consent: Consent, run: Run, output: Output
) -> Destroyed:
    """Delete the stack, then the bucket if it is empty or its data may go.

    Raises:
        Reject: sam failed, or the stack is still there; the bucket is as it was.
    """
    found = _bucket_of(stack, account)
    bucket = found or _usual_name(stack, account)
    if found is not None:
        run(delete_command(stack, account.region, ask=consent.ask))
        if _bucket_of(stack, account) is not None:
            raise StackStays(f"stack {stack} is still there: nothing of bucket {bucket} is deleted")
    objects = count_objects(clients.s3, bucket)
    if objects is None:
        output.say(f"there is no bucket {bucket}")
        return Destroyed(stack, bucket, bucket_deleted=False)
    if objects and not consent.delete_data:
        output.say(
            f"bucket {bucket} holds data and stays: delete it with --yes-delete-data; "
            f"while it is there, no stack can be deployed as {stack}",
            "yellow",
        )
        return Destroyed(stack, bucket, bucket_deleted=False)
    delete_bucket(clients.s3, bucket, with_data=consent.delete_data)
    output.say(f"bucket {bucket} is deleted", "green")
    return Destroyed(stack, bucket, bucket_deleted=True)


def _bucket_of(stack: str, account: Account) -> str | None:
    """Return the stack's bucket; None without a stack.

    Raises:
        Reject: a stack without a bucket is none of ours: nobody deletes it here.
    """
    try:
        facts = account.stack(stack)
    except MissingSetting:
        return None
    if "BucketName" not in facts.outputs:
        raise Reject(
            f"stack {stack} is {facts.status} and has no output BucketName: it was never whole, or "
            f"is another project's; delete it with: sam delete --stack-name {stack}"
        )
    return facts.outputs["BucketName"]


def _usual_name(stack: str, account: Account) -> str:
    """Return what template.yaml calls the bucket: for one whose stack is gone already."""
    number = account.identity().split(":")[4]
    return f"{stack}-{number}-{account.region}"
