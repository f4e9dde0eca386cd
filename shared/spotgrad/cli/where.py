"""``--bucket`` -> a store: an S3 bucket, by name or by its stack, or a directory of a local run."""

import os
from pathlib import Path
from typing import Final

from spotgrad.ports import ObjectStore
from spotgrad.settings import MissingSetting

__all__ = ["is_directory", "open_store"]

_SCHEME: Final = "s3://"
_STACK: Final = "stack:"


def open_store(bucket: str) -> ObjectStore:
    """Return the store that ``bucket`` names.

    A directory is one that exists, or whatever contains a path separator; ``s3://name`` is a
    bucket, also beside a directory of that name; ``stack:name`` the bucket of a deployed stack.

    Raises:
        MissingSetting: a path that is no directory, a bucket with a path behind it, no such stack.
    """
    if bucket.startswith(_SCHEME):
        return _s3(bucket.removeprefix(_SCHEME).removesuffix("/"), bucket)
    if bucket.startswith(_STACK):
        return _s3(_bucket_of(bucket.removeprefix(_STACK)), bucket)
    if is_directory(bucket):
        return _directory(Path(bucket))
    return _s3(bucket, bucket)


def is_directory(bucket: str) -> bool:
    """Return whether ``bucket`` names a directory: no function is at work in one."""
    if bucket.startswith(_SCHEME) or not bucket:
        return False
    return Path(bucket).is_dir() or os.sep in bucket


def _directory(path: Path) -> ObjectStore:
    from spotgrad.directory.store import DirectoryStore

    if not path.is_dir():
        raise MissingSetting(
            f"--bucket {path}: there is no such directory; name another or make it"
        )
    return DirectoryStore(path)


def _bucket_of(stack: str) -> str:
    from spotgrad.aws.account import AwsAccount

    outputs = AwsAccount().stack(stack).outputs
    if "BucketName" not in outputs:
        raise MissingSetting(f"--bucket {_STACK}{stack}: this stack has no output BucketName")
    return outputs["BucketName"]


def _s3(name: str, given: str) -> ObjectStore:
    if not name or "/" in name:
        raise MissingSetting(f"--bucket {given}: give the bucket's name alone, without a path")
    # boto3 takes half a second to import: only here.
    from spotgrad.aws.clients import make_clients
    from spotgrad.aws.s3 import S3Store

    return S3Store(make_clients().s3, name)
