"""The only maker of boto3 clients: one of each per process, made by the composition root.

Region, profile, credentials and endpoint are what botocore reads (``AWS_PROFILE``,
``AWS_ENDPOINT_URL``, ``~/.aws`` ...) and nothing here overrides them. One variable is added:
``AWS_REGION``, which every other AWS SDK reads and botocore does not.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import boto3
import botocore.session
from botocore.config import Config

from spotgrad.aws.batch import BatchClient
from spotgrad.aws.sns import SnsClient
from spotgrad.aws.translate import translated

if TYPE_CHECKING:  # the stubs are a development dependency
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

__all__ = ["Clients", "make_clients", "make_session"]

# botocore's own row for "region", with one more name for the variable; the first one set counts
# https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html
_SESSION_VARIABLES = {"region": ("region", ["AWS_REGION", "AWS_DEFAULT_REGION"], None, None)}

# Standard: each request backs off by itself, with jitter. Adaptive would slow the whole client down
# once AWS throttles it, and so hold up a heartbeat because of somebody's GET: measured with a tenth
# of all requests throttled, it went down to 5.7 requests a second (standard mode: 16) and lost
# its leases of 5 s.
# https://docs.aws.amazon.com/boto3/latest/guide/retries.html
_COMMON = Config(
    retries={"mode": "standard", "total_max_attempts": 6},
    connect_timeout=5,
    read_timeout=60,  # above the 20 s of a long poll, and S3 may be slow to its first byte
    max_pool_connections=32,  # one per thread of the largest worker or copy, with room
    tcp_keepalive=True,
)

# Hashing a body costs more than merging it: TLS guards it on the way, S3 checks what it stores,
# and every tensor file carries its own digests.
_S3 = Config(
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
    s3={"payload_signing_enabled": False},
)
_PATH_STYLE = Config(s3={"payload_signing_enabled": False, "addressing_style": "path"})


@dataclass(frozen=True)
class Clients:
    """The clients of one process; all may be used by many threads at once."""

    s3: "S3Client"
    sqs: "SQSClient"
    session: boto3.session.Session | None = None
    """What others are made of; a session of its own where it is missing."""

    @cached_property
    def batch(self) -> BatchClient:
        """Return the client of AWS Batch, made when it is first asked for: few ever ask."""
        with translated("connect to AWS Batch"):
            client: BatchClient = (self.session or make_session()).client("batch", config=_COMMON)
            return client

    @cached_property
    def sns(self) -> SnsClient:
        """Return the client of SNS, made when it is first asked for, as that of Batch."""
        with translated("connect to Amazon SNS"):
            client: SnsClient = (self.session or make_session()).client("sns", config=_COMMON)
            return client


def make_clients() -> Clients:
    """Return new clients, as the environment and ``~/.aws`` describe them.

    Raises:
        MissingSetting: no region, an unknown profile, or a configuration that cannot be read.
    """
    with translated("connect to AWS"):
        session = make_session()
        return Clients(_s3(session), session.client("sqs", config=_COMMON), session)


def make_session() -> boto3.session.Session:
    """Return a session that reads the region as every AWS tool does; it makes clients."""
    reader = botocore.session.Session(session_vars=_SESSION_VARIABLES)
    return boto3.session.Session(botocore_session=reader)


def _s3(session: boto3.session.Session) -> "S3Client":
    config = _COMMON.merge(_S3)
    client = session.client("s3", config=config)
    if ".amazonaws.com" in client.meta.endpoint_url:
        return client
    # Nobody resolves "bucket.localhost" or "bucket.minio": an endpoint of one's own is
    # addressed by path.
    client.close()
    return session.client("s3", config=config.merge(_PATH_STYLE))
