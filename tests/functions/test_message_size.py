"""Messages carry references, never data: their size does not grow with the data set."""

from tests.functions.cloud import JOB, Cloud, failed

MOST_BYTES = 8 * 1024
SHARDS = 20_000


def test_twenty_thousand_shards_make_small_messages_and_few_of_them(cloud: Cloud) -> None:
    in_flight = 48
    key = cloud.upload(JOB, SHARDS, schedule={"max_in_flight": in_flight})
    assert cloud.call("plan", cloud.created(key)) == failed()
    assert cloud.call("aggregate", cloud.created(cloud.initialized(JOB))) == failed()
    bodies = cloud.bodies()
    assert len(bodies) == 1 + in_flight  # initialize, and no more of the epoch than may be out
    assert max(len(body.encode()) for body in bodies) < MOST_BYTES
