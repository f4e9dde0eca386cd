"""How a local run's processes see AWS: one loopback endpoint, dummy keys, nothing else.

A person's profile, keys, region, endpoint, proxy and ``SPOTGRAD_*`` settings never reach a child,
so a local run cannot touch a real account by accident.
"""

import os
from collections.abc import Mapping

import boto3.session
import botocore.session
from botocore.config import Config

from infra.local.topology import LOCAL_PSEUDO
from spotgrad.aws.clients import Clients

REGION = LOCAL_PSEUDO["AWS::Region"]
CALLER = "AWS_SDK_UA_APP_ID"
"""The variable whose value SDKs put into each request's User-Agent: who asked."""
ACCESS_KEY = "local"
SECRET_KEY = "local"  # noqa: S105 -- the emulator takes any
LOOPBACK = "127.0.0.1,localhost"

_NOT_INHERITED = ("AWS_", "SPOTGRAD_", "POWERTOOLS_", "MOTO_")
_MAX_CONNECTIONS = 32  # more than the pump's threads
_READ_TIMEOUT_SECONDS = 60  # a long poll ends after 20 at the latest


def child_environment(
    endpoint_url: str | None = None,
    *,
    extra: Mapping[str, str] | None = None,
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment of a child process that reads AWS settings as every AWS tool does.

    Args:
        endpoint_url: where the emulator listens; None for the emulator itself.
        extra: variables on top, such as a function's own.
        base: what to inherit from; this process's environment when left out.
    """
    inherited = dict(os.environ) if base is None else base  # noqa: TID251 -- handed on, not read
    kept = {name: text for name, text in inherited.items() if not name.startswith(_NOT_INHERITED)}
    proxies = {name: _with_loopback(kept.get(name)) for name in ("NO_PROXY", "no_proxy")}
    endpoint = {"AWS_ENDPOINT_URL": endpoint_url} if endpoint_url else {}
    return {**kept, **proxies, **_DUMMY_ACCOUNT, **endpoint, **(extra or {})}


def local_clients(endpoint_url: str) -> Clients:
    """Return clients for the emulator that ignore every AWS setting of the person who runs us."""
    core = botocore.session.Session(
        session_vars={
            "profile": (None, None, None, None),
            "config_file": (None, None, os.devnull, None),
            "credentials_file": (None, None, os.devnull, None),
        }
    )
    session = boto3.session.Session(
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name=REGION,
        botocore_session=core,
    )
    config = Config(
        proxies={},
        use_fips_endpoint=False,
        use_dualstack_endpoint=False,
        max_pool_connections=_MAX_CONNECTIONS,
        read_timeout=_READ_TIMEOUT_SECONDS,
    )
    return Clients(
        s3=session.client("s3", endpoint_url=endpoint_url, config=config),
        sqs=session.client("sqs", endpoint_url=endpoint_url, config=config),
    )


_DUMMY_ACCOUNT = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "POWERTOOLS_TRACE_DISABLED": "true",  # there is no X-Ray daemon on a laptop
}


def _with_loopback(hosts: str | None) -> str:
    return f"{hosts},{LOOPBACK}" if hosts else LOOPBACK
