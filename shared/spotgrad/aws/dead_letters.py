"""Where a queue's dead letters go, as its own redrive policy says.

So that only the queues themselves have to be named, as everywhere else.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
"""

import json
from typing import TYPE_CHECKING

from spotgrad.aws.sqs import SqsQueue
from spotgrad.aws.translate import translated
from spotgrad.errors import Unsupported

if TYPE_CHECKING:  # the stubs are a development dependency
    from mypy_boto3_sqs import SQSClient

__all__ = ["dead_letters_of"]


def dead_letters_of(client: "SQSClient", queue_url: str) -> SqsQueue:
    """Return the dead-letter queue of the queue at ``queue_url``.

    Raises:
        Unsupported: the queue has none.
        MissingSetting: there is no such queue.
    """
    with translated(f"look for the dead letters of {queue_url}"):
        answer = client.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["RedrivePolicy"])
        policy = answer.get("Attributes", {}).get("RedrivePolicy")
        if not policy:
            raise Unsupported(
                f"queue {queue_url} has no dead-letter queue: it has no RedrivePolicy"
            )
        # arn:<partition>:sqs:<region>:<account>:<name>
        *_, account, name = json.loads(policy)["deadLetterTargetArn"].split(":")
        found = client.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)
    return SqsQueue(client, found["QueueUrl"])
