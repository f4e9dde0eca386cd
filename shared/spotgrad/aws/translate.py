"""Everything that botocore raises -> ``spotgrad.errors``: one table, one context manager.

Answers of AWS are looked up by operation and code, by code, then by HTTP status; what botocore
raises without an answer is looked up by class. A test walks botocore's service models and its
exceptions and fails when one has no row here (or is one of ``BUGS``). No retries: botocore has
done them (``spotgrad.aws.clients``), so what arrives here is its last word.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError

from spotgrad.errors import (
    AccessDenied,
    ConditionFailed,
    LeaseLost,
    Malformed,
    NotFound,
    SpotgradError,
    StoreUnavailable,
    Unsupported,
)
from spotgrad.settings import MissingSetting

__all__ = [
    "BUGS",
    "BY_CODE",
    "BY_EXCEPTION",
    "BY_STATUS",
    "Rule",
    "code_of",
    "translate",
    "translated",
]


@dataclass(frozen=True)
class Rule:
    """What to raise, and what a person can do about it ("" where the queue does it alone)."""

    raises: type[SpotgradError]
    remedy: str = ""


AGAIN = Rule(StoreUnavailable)
LOST_RACE = Rule(ConditionFailed)
LOST_LEASE = Rule(LeaseLost)
MISSING = Rule(NotFound)
DENIED = Rule(  # S3 hides from whoever may not list a bucket which of its keys exist
    AccessDenied, "check the role's policy; without s3:ListBucket a missing key answers so too"
)
NO_LOGIN = Rule(AccessDenied, "log in again, or check AWS_PROFILE and the credentials")
NO_BUCKET = Rule(MissingSetting, "create the bucket, or correct --bucket or SPOTGRAD_BUCKET")
NO_QUEUE = Rule(MissingSetting, "deploy it, or correct its URL, as SPOTGRAD_SUBTASKS_QUEUE_URL")
NO_STACK = Rule(MissingSetting, "deploy it, or correct --stack, SPOTGRAD_STACK or AWS_REGION")
NO_FLEET = Rule(
    MissingSetting,
    "deploy the fleet, or correct SPOTGRAD_WORKER_JOB_QUEUE and SPOTGRAD_WORKER_JOB_DEFINITION",
)
NO_TOPIC = Rule(MissingSetting, "deploy the topic, or correct SPOTGRAD_TOPIC_ARN")
WRONG_REGION = Rule(MissingSetting, "set AWS_REGION to the region of the bucket and the queues")
WRONG_CONFIG = Rule(MissingSetting, "correct AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL or ~/.aws")
KMS_KEY = Rule(AccessDenied, "check the state and the policy of the KMS key")
ARCHIVED = Rule(Unsupported, "restore the object from its archive storage class first")
BAD_MESSAGE = Rule(Malformed)
REFUSED = Rule(Unsupported)


def _rows(rule: Rule, codes: str) -> dict[str, Rule]:
    return dict.fromkeys(codes.split(), rule)


# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
BY_CODE: Mapping[str, Rule] = MappingProxyType(
    {
        # 409 has the meaning of 412: somebody else's conditional write is in progress.
        **_rows(LOST_RACE, "PreconditionFailed ConditionalRequestConflict OperationAborted"),
        # A PUT has no key to miss, unless If-Match asks for one.
        **_rows(LOST_RACE, "PutObject:NoSuchKey PutObject:404 PutObject:NotFound"),
        **_rows(MISSING, "NoSuchKey NotFound 404 NoSuchVersion"),
        **_rows(MISSING, "ResourceNotFoundException NoSuchResourceException"),
        **_rows(MISSING, "RepositoryNotFoundException ImageNotFoundException"),
        **_rows(NO_STACK, "DescribeStacks:ValidationError"),
        **_rows(NO_BUCKET, "NoSuchBucket InvalidBucketName"),
        **_rows(NO_QUEUE, "QueueDoesNotExist NonExistentQueue QueueDeletedRecently InvalidAddress"),
        **_rows(LOST_LEASE, "MessageNotInflight ReceiptHandleIsInvalid InvalidIdFormat"),
        **_rows(AGAIN, "SlowDown ServiceUnavailable InternalError InternalFailure RequestTimeout"),
        **_rows(
            AGAIN,
            "InternalServerError ServiceFailure OverLimit RequestTimeoutException ServiceException",
        ),
        **_rows(AGAIN, "Throttling ThrottlingException ThrottledException RequestThrottled"),
        **_rows(AGAIN, "RequestThrottledException RequestLimitExceeded TooManyRequestsException"),
        **_rows(AGAIN, "KmsThrottled KMS.ThrottlingException LimitExceededException Busy"),
        **_rows(AGAIN, "PriorRequestNotComplete BandwidthLimitExceeded IncompleteBody BadDigest"),
        **_rows(DENIED, "AccessDenied AccessDeniedException AllAccessDisabled InvalidSecurity"),
        **_rows(DENIED, "AccountProblem NotSignedUp OptInRequired UnauthorizedAccess"),
        **_rows(NO_LOGIN, "ExpiredToken ExpiredTokenException RequestExpired InvalidToken"),
        **_rows(NO_LOGIN, "InvalidClientTokenId InvalidAccessKeyId SignatureDoesNotMatch"),
        **_rows(NO_LOGIN, "UnrecognizedClientException IncompleteSignature TokenRefreshRequired"),
        **_rows(NO_LOGIN, "MissingAuthenticationToken MissingSecurityHeader NotAuthorized"),
        **_rows(Rule(AccessDenied, "set this machine's clock"), "RequestTimeTooSkewed"),
        **_rows(KMS_KEY, "KmsAccessDenied KMS.AccessDeniedException KmsOptInRequired"),
        **_rows(KMS_KEY, "KMS.OptInRequired KmsDisabled KMS.DisabledException KmsNotFound"),
        **_rows(KMS_KEY, "KMS.NotFoundException KmsInvalidState KMS.InvalidStateException"),
        **_rows(KMS_KEY, "KmsInvalidKeyUsage KMS.InvalidKeyUsageException"),
        **_rows(WRONG_REGION, "PermanentRedirect TemporaryRedirect AuthorizationHeaderMalformed"),
        **_rows(WRONG_REGION, "IllegalLocationConstraintException Redirect"),
        **_rows(ARCHIVED, "InvalidObjectState"),
        # https://docs.aws.amazon.com/sns/latest/api/API_Publish.html#API_Publish_Errors
        **_rows(NO_TOPIC, "Publish:NotFound Publish:NotFoundException Publish:404"),
        **_rows(MISSING, "NotFoundException"),
        **_rows(DENIED, "AuthorizationError AuthorizationErrorException InvalidSecurityException"),
        **_rows(AGAIN, "InternalErrorException KMSThrottling KMSThrottlingException"),
        **_rows(KMS_KEY, "KMSDisabled KMSDisabledException KMSNotFound KMSNotFoundException"),
        **_rows(KMS_KEY, "KMSInvalidState KMSInvalidStateException KMSOptInRequired"),
        **_rows(KMS_KEY, "KMSAccessDenied KMSAccessDeniedException"),
        **_rows(REFUSED, "InvalidParameter ParameterValueInvalid ValidationException"),
        **_rows(REFUSED, "EndpointDisabledException PlatformApplicationDisabledException"),
        # Batch has two errors in all: https://docs.aws.amazon.com/batch/latest/APIReference/
        **_rows(NO_FLEET, "ClientException"),
        **_rows(AGAIN, "ServerException"),
        **_rows(BAD_MESSAGE, "InvalidMessageContents BatchRequestTooLong"),
        **_rows(REFUSED, "InvalidRequest InvalidWriteOffset TooManyParts EncryptionTypeMismatch"),
        **_rows(REFUSED, "EntityTooLarge KeyTooLongError InvalidArgument InvalidURI"),
        **_rows(REFUSED, "MethodNotAllowed NotImplemented InvalidParameterValue MissingParameter"),
        **_rows(REFUSED, "InvalidParameterCombination InvalidAction UnsupportedOperation"),
        **_rows(REFUSED, "InvalidParameterValueException InvalidParameterException"),
        **_rows(REFUSED, "IllegalArgumentException"),
        **_rows(REFUSED, "InvalidAttributeName InvalidAttributeValue InvalidBatchEntryId"),
        **_rows(REFUSED, "TooManyEntriesInBatchRequest EmptyBatchRequest BatchEntryIdsNotDistinct"),
    }
)

BY_STATUS: Mapping[int, Rule] = MappingProxyType(
    {
        301: WRONG_REGION,
        307: WRONG_REGION,
        401: NO_LOGIN,
        403: DENIED,
        404: MISSING,
        408: AGAIN,
        409: LOST_RACE,
        412: LOST_RACE,
        429: AGAIN,
    }
)

BY_EXCEPTION: Mapping[type[Exception], Rule] = MappingProxyType(
    {
        **dict.fromkeys(
            (  # the wire, or whoever hands out credentials, failed: nothing is known
                boto.HTTPClientError,
                boto.ConnectionError,
                boto.IncompleteReadError,
                boto.ChecksumError,
                boto.FlexibleChecksumError,
                boto.AwsChunkedWrapperError,
                boto.CapacityNotAvailableError,
                boto.PaginationError,
                boto.MetadataRetrievalError,
                boto.CredentialRetrievalError,
                boto.TokenRetrievalError,
            ),
            AGAIN,
        ),
        **dict.fromkeys(
            (
                boto.NoCredentialsError,
                boto.PartialCredentialsError,
                boto.NoAuthTokenError,
                boto.UnknownTokenProviderError,
                boto.UnknownCredentialError,
                boto.RefreshWithMFAUnsupportedError,
                boto.SSOError,
                boto.LoginError,
                boto.MissingDependencyException,
            ),
            NO_LOGIN,
        ),
        **dict.fromkeys(
            (  # what ~/.aws and AWS_* say cannot be used
                boto.BaseEndpointResolverError,
                boto.EndpointProviderError,
                boto.UnknownRegionError,
                boto.InvalidRegionError,
                boto.ServiceNotInRegionError,
                boto.ProfileNotFound,
                boto.ConfigNotFound,
                boto.ConfigParseError,
                boto.InvalidConfigError,
                boto.InvalidChecksumConfigError,
                boto.InvalidDefaultsMode,
                boto.InvalidEndpointConfigurationError,
                boto.InvalidEndpointDiscoveryConfigurationError,
                boto.InvalidIMDSEndpointError,
                boto.InvalidIMDSEndpointModeError,
                boto.InvalidProxiesConfigError,
                boto.InvalidRetryConfigurationError,
                boto.InvalidS3AddressingStyleError,
                boto.InvalidS3UsEast1RegionalEndpointConfigError,
                boto.InvalidSTSRegionalEndpointsConfigError,
                boto.UnknownSignatureVersionError,
                boto.UnsupportedSignatureVersionError,
                boto.ValidationError,
            ),
            WRONG_CONFIG,
        ),
        **dict.fromkeys(
            (  # a bucket's name or ARN that no request can be built from
                boto.InvalidDNSNameError,
                boto.InvalidHostLabelError,
                boto.UnsupportedOutpostResourceError,
                boto.UnsupportedS3ArnError,
                boto.UnsupportedS3AccesspointConfigurationError,
                boto.UnsupportedS3ConfigurationError,
            ),
            NO_BUCKET,
        ),
        boto.ParamValidationError: REFUSED,
        boto.UnseekableStreamError: REFUSED,
    }
)

# Our own mistakes, or a broken installation, must look like it: they pass untranslated.
BUGS: tuple[type[Exception], ...] = (
    boto.ApiVersionNotFoundError,
    boto.DataNotFoundError,
    boto.InvalidExpressionError,
    boto.MD5UnavailableError,
    boto.MissingParametersError,
    boto.OperationNotPageableError,
    boto.StubResponseError,
    boto.UnknownClientMethodError,
    boto.UnknownServiceStyle,
    boto.UnsupportedS3ControlArnError,
    boto.UnsupportedS3ControlConfigurationError,
    boto.UnsupportedServiceProtocolsError,
    boto.WaiterConfigError,
    boto.WaiterError,
)

# SQS answers in two dialects: its JSON model's names, and the query protocol's codes.
_QUERY_PREFIX = "AWS.SimpleQueueService."


def code_of(error: ClientError) -> str:
    """Return the code of AWS's answer in the form in which ``BY_CODE`` lists it."""
    answer = error.response.get("Error", {})
    code = str(answer.get("Code", "")).removeprefix(_QUERY_PREFIX)
    # An expired receipt handle is reported as a bad parameter, and so is a lease beyond 12 h; see
    # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteMessage.html
    if code == "InvalidParameterValue" and "ReceiptHandle" in str(answer.get("Message", "")):
        return "ReceiptHandleIsInvalid"
    return code


def _rule_of_answer(error: ClientError) -> Rule:
    code = code_of(error)
    specific = BY_CODE.get(f"{error.operation_name}:{code}") or BY_CODE.get(code)
    if specific is not None:
        return specific
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return BY_STATUS.get(status) or (REFUSED if 400 <= status < 500 else AGAIN)


def _rule_of_exception(error: BotoCoreError) -> Rule:
    # A class that a newer botocore adds is retried: nothing is known about the request's effect.
    return next((BY_EXCEPTION[kind] for kind in type(error).mro() if kind in BY_EXCEPTION), AGAIN)


def translate(error: ClientError | BotoCoreError, what: str) -> SpotgradError:
    """Return the error to raise instead of ``error``; ``what`` names the call and its object."""
    if isinstance(error, ClientError):
        rule = _rule_of_answer(error)
        detail = f"{code_of(error)}: {error.response.get('Error', {}).get('Message', '')}"
    else:
        rule, detail = _rule_of_exception(error), str(error)
    remedy = f" ({rule.remedy})" if rule.remedy else ""
    return rule.raises(" ".join(f"{what}: {detail}{remedy}".split()))


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn whatever botocore raises inside into ``spotgrad.errors``; the cause is kept.

    Args:
        what: verb and object of the call, such as ``get s3://bucket/key``.
    """
    try:
        yield
    except BUGS:
        raise
    except (ClientError, BotoCoreError) as error:
        raise translate(error, what) from error
