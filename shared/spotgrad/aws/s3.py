"""The port ``ObjectSweeper`` on one S3 bucket.

S3 is strongly consistent, lists in the order of the keys' UTF-8 bytes and writes an object whole or
not at all, so this is thin. Entity tags travel as S3 gives them, quotes included.
"""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC
from typing import TYPE_CHECKING

from spotgrad.aws.translate import translated
from spotgrad.ports import Absent, ObjectInfo, StoredObject

if TYPE_CHECKING:  # the stubs are a development dependency
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import PutObjectRequestTypeDef

__all__ = ["S3Store"]


class S3Store:
    """One bucket. ``client`` comes from ``spotgrad.aws.clients``."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def get(self, key: str) -> StoredObject:
        """Return the whole object.

        Raises:
            NotFound: there is no such key.
            StoreUnavailable: also when the body ends early (botocore compares its length).
        """
        with translated(f"get {self._uri(key)}"):
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            with closing(answer["Body"]) as stream:
                return StoredObject(body=stream.read(), etag=answer["ETag"])

    def put(self, key: str, body: bytes, *, only_if: Absent | str | None = None) -> str:
        """Write the whole object, at once or not at all, and return its new entity tag.

        botocore repeats a PUT whose answer was lost; a conditional one may then lose against
        itself. Whoever writes conditionally reads back to see whose write it was.

        Raises:
            ConditionFailed: the condition does not hold, or another write is in progress.
        """
        request: PutObjectRequestTypeDef = {"Bucket": self._bucket, "Key": key, "Body": body}
        if isinstance(only_if, Absent):
            request["IfNoneMatch"] = "*"
        elif only_if is not None:
            request["IfMatch"] = only_if
        with translated(f"put {self._uri(key)}"):
            return self._client.put_object(**request)["ETag"]

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with ``prefix``, in ascending order of key."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix
        )
        with translated(f"list {self._uri(prefix)}"):
            for page in pages:
                for row in page.get("Contents", ()):
                    yield ObjectInfo(
                        key=row["Key"],
                        size_bytes=row["Size"],
                        etag=row["ETag"],
                        modified_at=row["LastModified"].astimezone(UTC),
                    )

    def delete(self, key: str) -> None:
        """Delete the object; a key that does not exist is no error."""
        with translated(f"delete {self._uri(key)}"):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def _uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"
