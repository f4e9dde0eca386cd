"""Fault ``throttle``: S3 says SlowDown, SQS says RequestThrottled, and the request goes nowhere."""

import json
from typing import Final

from infra.local.chaos.dice import Dice, Tally
from infra.local.chaos.exchange import Forward, Request, Response

KIND: Final = "throttle"

# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_SLOW_DOWN: Final = Response(
    503,
    {"content-type": "application/xml"},
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
)
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
_REQUEST_THROTTLED: Final = Response(
    400,
    {
        "content-type": "application/x-amz-json-1.0",
        "x-amzn-query-error": "RequestThrottled;Sender",
    },
    json.dumps({"__type": "com.amazonaws.sqs#RequestThrottled", "message": "chaos"}).encode(),
)


class Throttling:
    """Refuses each request with the same probability."""

    def __init__(self, probability: float, dice: Dice, tally: Tally) -> None:
        self._probability = probability
        self._dice = dice
        self._tally = tally

    def __call__(self, request: Request, forward: Forward) -> Response:
        """Answer by itself, or let the request through."""
        if not self._dice.hit(self._probability):
            return forward(request)
        self._tally.add(KIND)
        return _SLOW_DOWN if request.operation is None else _REQUEST_THROTTLED
