"""What moto cannot show: a deletion that S3 refuses for one of the objects."""

import pytest
from botocore.stub import Stubber

from spotgrad.aws.clients import make_clients
from spotgrad.aws.removal import delete_bucket
from spotgrad.errors import AccessDenied


def test_what_may_not_be_deleted_ends_it_and_the_bucket_stays() -> None:
    client = make_clients().s3
    row = {"Key": "models/1", "VersionId": "null"}
    with Stubber(client) as stub:
        stub.add_response("list_object_versions", {"Versions": [row]})
        refused = {"Key": "models/1", "Code": "AccessDenied", "Message": "no"}
        stub.add_response("delete_objects", {"Errors": [refused]})
        with pytest.raises(AccessDenied, match="models/1 stays: AccessDenied no"):
            delete_bucket(client, "bucket", with_data=True)
        stub.assert_no_pending_responses()
