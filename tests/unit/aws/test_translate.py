"""The table is complete, every row says what it should, and messages are of use to a person."""

import botocore.session
import pytest
from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError

from spotgrad import errors
from spotgrad.aws.translate import BUGS, BY_CODE, BY_EXCEPTION, code_of, translate, translated
from spotgrad.errors import (
    AccessDenied,
    ConditionFailed,
    LeaseLost,
    Malformed,
    NotFound,
    Reject,
    SpotgradError,
    StoreUnavailable,
    Unsupported,
)
from spotgrad.settings import MissingSetting

OPERATIONS = {
    "s3": ["GetObject", "PutObject", "ListObjectsV2", "DeleteObject"],
    "sqs": [
        "SendMessageBatch",
        "ReceiveMessage",
        "DeleteMessage",
        "ChangeMessageVisibility",
        "GetQueueAttributes",
    ],
    "batch": ["ListJobs", "SubmitJob", "DescribeJobQueues", "DescribeComputeEnvironments"],
    "sns": ["Publish"],
    "lambda": ["GetFunctionConfiguration", "ListEventSourceMappings"],
    "ecr": ["DescribeImages"],
    "service-quotas": ["GetServiceQuota"],
}

# The models of S3 list few errors; these are documented beside them:
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and, for SQS,
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
DOCUMENTED = """
    AccessDenied AuthorizationHeaderMalformed BadDigest ConditionalRequestConflict EntityTooLarge
    ExpiredToken IncompleteBody InternalError InvalidAccessKeyId InvalidArgument InvalidBucketName
    InvalidObjectState InvalidRequest InvalidToken InvalidURI KeyTooLongError MethodNotAllowed
    NoSuchBucket NoSuchKey NotImplemented OperationAborted PermanentRedirect PreconditionFailed
    RequestTimeTooSkewed RequestTimeout ServiceUnavailable SignatureDoesNotMatch SlowDown
    TemporaryRedirect TokenRefreshRequired
    AccessDeniedException ExpiredTokenException IncompleteSignature InternalFailure InvalidAction
    InvalidClientTokenId InvalidParameterCombination InvalidParameterValue MissingParameter
    NotAuthorized OptInRequired RequestExpired ThrottlingException UnrecognizedClientException
    OverLimit MessageNotInflight ReceiptHandleIsInvalid RequestThrottled
"""


def answer(
    code: str, status: int, operation: str = "GetObject", message: str = "because"
) -> ClientError:
    return ClientError(
        {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "RequestId": "1",
                "HostId": "",
                "HTTPHeaders": {},
                "RetryAttempts": 0,
            },
        },
        operation,
    )


def kind(error: ClientError | BotoCoreError) -> type[SpotgradError]:
    return type(translate(error, "try it"))


@pytest.mark.parametrize("service", OPERATIONS)
def test_every_error_of_the_service_model_has_a_row(service: str) -> None:
    model = botocore.session.get_session().get_service_model(service)
    modelled = {
        shape.name
        for name in OPERATIONS[service]
        for shape in model.operation_model(name).error_shapes
    }
    assert modelled
    assert modelled <= set(BY_CODE)


@pytest.mark.parametrize("code", DOCUMENTED.split())
def test_every_documented_error_has_a_row(code: str) -> None:
    assert code in BY_CODE


def test_every_exception_of_botocore_has_a_row_or_is_a_bug() -> None:
    classes = [
        found
        for found in vars(boto).values()
        if isinstance(found, type) and issubclass(found, BotoCoreError)
    ]
    rows = (*BY_EXCEPTION, *BUGS)
    unmapped = {
        found.__name__
        for found in classes
        if found is not BotoCoreError and not issubclass(found, rows)
    }
    assert len(classes) > 50
    assert unmapped == set()


def test_no_exception_is_both_a_bug_and_in_the_table() -> None:
    assert not set(BUGS) & set(BY_EXCEPTION)


def test_every_row_raises_a_leaf() -> None:
    leaves = {found for found in vars(errors).values() if isinstance(found, type)}
    leaves = {leaf for leaf in leaves if not leaf.__subclasses__() or leaf is Unsupported}
    for rule in (*BY_CODE.values(), *BY_EXCEPTION.values()):
        assert rule.raises in leaves | {MissingSetting}


@pytest.mark.parametrize(
    ("code", "status", "operation", "wanted"),
    [
        ("PreconditionFailed", 412, "PutObject", ConditionFailed),
        ("ConditionalRequestConflict", 409, "PutObject", ConditionFailed),
        ("OperationAborted", 409, "PutObject", ConditionFailed),
        ("NoSuchKey", 404, "PutObject", ConditionFailed),
        ("NoSuchKey", 404, "GetObject", NotFound),
        ("NoSuchBucket", 404, "GetObject", MissingSetting),
        ("NoSuchBucket", 404, "PutObject", MissingSetting),
        ("SlowDown", 503, "PutObject", StoreUnavailable),
        ("InternalError", 500, "GetObject", StoreUnavailable),
        ("RequestTimeout", 400, "PutObject", StoreUnavailable),
        ("ThrottlingException", 400, "SendMessageBatch", StoreUnavailable),
        ("RequestThrottled", 403, "ReceiveMessage", StoreUnavailable),
        ("OverLimit", 403, "ReceiveMessage", StoreUnavailable),
        ("AccessDenied", 403, "GetObject", AccessDenied),
        ("ExpiredToken", 400, "GetObject", AccessDenied),
        ("InvalidClientTokenId", 403, "ReceiveMessage", AccessDenied),
        ("SignatureDoesNotMatch", 403, "GetObject", AccessDenied),
        ("InvalidObjectState", 403, "GetObject", Unsupported),
        ("PermanentRedirect", 301, "GetObject", MissingSetting),
        ("MessageNotInflight", 400, "ChangeMessageVisibility", LeaseLost),
        ("ReceiptHandleIsInvalid", 404, "DeleteMessage", LeaseLost),
        ("QueueDoesNotExist", 400, "ReceiveMessage", MissingSetting),
        ("InvalidMessageContents", 400, "SendMessageBatch", Malformed),
        ("ClientException", 400, "SubmitJob", MissingSetting),
        ("ValidationError", 400, "DescribeStacks", MissingSetting),
        ("ImageNotFoundException", 400, "DescribeImages", NotFound),
        ("ServerException", 500, "ListJobs", StoreUnavailable),
        ("TooManyRequestsException", 429, "SubmitJob", StoreUnavailable),
        ("KmsAccessDenied", 400, "SendMessageBatch", AccessDenied),
        ("KMS.ThrottlingException", 400, "SendMessageBatch", StoreUnavailable),
        # SQS in the dialect of its old query protocol, which botocore shows for compatibility
        ("AWS.SimpleQueueService.NonExistentQueue", 400, "ReceiveMessage", MissingSetting),
        ("AWS.SimpleQueueService.MessageNotInflight", 400, "ChangeMessageVisibility", LeaseLost),
        # codes that nobody documents: the status decides
        ("Teapot", 418, "GetObject", Unsupported),
        ("Nobody", 401, "GetObject", AccessDenied),
        ("Nobody", 403, "GetObject", AccessDenied),
        ("Nobody", 404, "GetObject", NotFound),
        ("Nobody", 409, "PutObject", ConditionFailed),
        ("Nobody", 412, "PutObject", ConditionFailed),
        ("Nobody", 429, "GetObject", StoreUnavailable),
        ("Nobody", 500, "GetObject", StoreUnavailable),
        ("Nobody", 599, "GetObject", StoreUnavailable),
        ("Nobody", 200, "GetObject", StoreUnavailable),
    ],
)
def test_answers(code: str, status: int, operation: str, wanted: type[SpotgradError]) -> None:
    assert kind(answer(code, status, operation)) is wanted


def test_an_answer_without_anything_in_it_is_retried() -> None:
    assert kind(ClientError({}, "GetObject")) is StoreUnavailable


@pytest.mark.parametrize("operation", ["DeleteMessage", "ChangeMessageVisibility"])
def test_a_bad_parameter_is_a_lost_lease_if_it_is_the_receipt_handle(operation: str) -> None:
    expired = "Value AQEB for parameter ReceiptHandle is invalid. Reason: it has expired."
    assert kind(answer("InvalidParameterValue", 400, operation, expired)) is LeaseLost
    beyond = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
    assert kind(answer("InvalidParameterValue", 400, operation, beyond)) is Unsupported


def test_code_of_drops_the_old_prefix() -> None:
    assert code_of(answer("AWS.SimpleQueueService.BatchRequestTooLong", 400)) == (
        "BatchRequestTooLong"
    )


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (boto.EndpointConnectionError(endpoint_url="http://x"), StoreUnavailable),
        (boto.ConnectTimeoutError(endpoint_url="http://x"), StoreUnavailable),
        (boto.ReadTimeoutError(endpoint_url="http://x"), StoreUnavailable),
        (boto.ConnectionClosedError(endpoint_url="http://x"), StoreUnavailable),
        (boto.ResponseStreamingError(error="cut"), StoreUnavailable),
        (boto.IncompleteReadError(actual_bytes=1, expected_bytes=2), StoreUnavailable),
        (boto.CredentialRetrievalError(provider="x", error_msg="y"), StoreUnavailable),
        (boto.NoCredentialsError(), AccessDenied),
        (boto.PartialCredentialsError(provider="x", cred_var="y"), AccessDenied),
        (boto.SSOTokenLoadError(error_msg="x"), AccessDenied),
        (boto.NoRegionError(), MissingSetting),
        (boto.ProfileNotFound(profile="x"), MissingSetting),
        (boto.ParamValidationError(report="x"), Unsupported),
        (BotoCoreError(), StoreUnavailable),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_exceptions(error: BotoCoreError, wanted: type[SpotgradError]) -> None:
    assert kind(error) is wanted


def test_a_message_is_one_line_with_call_code_reason_and_remedy() -> None:
    text = str(translate(answer("NoSuchBucket", 404, message="it\n is gone"), "get s3://b/k"))
    assert text == (
        "get s3://b/k: NoSuchBucket: it is gone "
        "(create the bucket, or correct --bucket or SPOTGRAD_BUCKET)"
    )
    assert str(translate(answer("NoSuchKey", 404), "get s3://b/k")) == (
        "get s3://b/k: NoSuchKey: because"
    )


def test_translated_keeps_the_cause() -> None:
    cause = answer("AccessDenied", 403)
    with pytest.raises(Reject, match="read it: AccessDenied") as caught, translated("read it"):
        raise cause
    assert caught.value.__cause__ is cause


def test_translated_lets_everything_else_pass() -> None:
    for error in (ValueError("ours"), boto.StubResponseError(operation_name="x", reason="y")):
        with pytest.raises(type(error)) as caught, translated("try it"):
            raise error
        assert caught.value is error
    with translated("do nothing"):
        pass
