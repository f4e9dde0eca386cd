"""The object store's contract on ministack: the suite of ``tests/contract``, and a real page."""

from concurrent.futures import ThreadPoolExecutor

from spotgrad.aws.s3 import S3Store
from tests.contract.test_object_store import *  # noqa: F403 -- every test of the suite, whatever its name
from tests.contract.test_object_store import keys

MOST_KEYS_OF_A_PAGE = 1_000  # S3's, and ministack's


def test_a_listing_goes_beyond_a_thousand_keys(store: S3Store) -> None:
    """The suite's own makes pages small, which only moto can do."""
    wanted = [f"k/{number:04}" for number in range(MOST_KEYS_OF_A_PAGE + 3)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: store.put(key, b""), wanted))
    assert keys(store, "k/") == wanted
