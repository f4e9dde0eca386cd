"""Deleting a bucket: the one thing of a deployment that its stack leaves behind.

Invariant: a bucket that holds anything is emptied only when ``with_data`` says so; without it S3
itself refuses to delete what is not empty, whoever wrote last.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spotgrad.aws.translate import translated
from spotgrad.errors import AccessDenied, NotFound
from spotgrad.settings import MissingSetting

if TYPE_CHECKING:  # the stubs are a development dependency
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

__all__ = ["count_objects", "delete_bucket"]

ENOUGH = 1000
"""One page of a listing (API_ListObjectsV2.html): nobody waits for a million to be counted."""


def count_objects(client: "S3Client", bucket: str) -> int | None:
    """Return how many objects a bucket holds, 1,000 standing for more; None without a bucket."""
    try:
        with translated(f"look into bucket {bucket}"):
            answer = client.list_objects_v2(Bucket=bucket, MaxKeys=ENOUGH)
    except (MissingSetting, NotFound):
        return None
    return answer.get("KeyCount", 0)


def delete_bucket(client: "S3Client", bucket: str, *, with_data: bool) -> None:
    """Delete a bucket, and before it, where asked to, everything in it.

    Raises:
        Retry: it is not empty (any more), or S3 failed: what is deleted already stays deleted.
        AccessDenied: something in it may not be deleted.
    """
    while with_data and (rows := _some(client, bucket)):
        _delete(client, bucket, rows)
    with translated(f"delete bucket {bucket}"):
        client.delete_bucket(Bucket=bucket)


def _some(client: "S3Client", bucket: str) -> Sequence["ObjectIdentifierTypeDef"]:
    """Return up to 1,000 of what lies in the bucket, older versions too where there are any."""
    with translated(f"list bucket {bucket}"):
        page = client.list_object_versions(Bucket=bucket, MaxKeys=ENOUGH)
    rows = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
    return [{"Key": row["Key"], "VersionId": row["VersionId"]} for row in rows[:ENOUGH]]


def _delete(client: "S3Client", bucket: str, rows: Sequence["ObjectIdentifierTypeDef"]) -> None:
    with translated(f"empty bucket {bucket}"):
        answer = client.delete_objects(Bucket=bucket, Delete={"Objects": rows, "Quiet": True})
    for failed in answer.get("Errors", ()):
        raise AccessDenied(
            f"empty bucket {bucket}: {failed.get('Key')} stays: {failed.get('Code')} "
            f"{failed.get('Message')} (allow s3:DeleteObject and s3:DeleteObjectVersion)"
        )
