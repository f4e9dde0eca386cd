import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotgrad.planning.order import shard_order


@given(st.integers(0, 2**63 - 1), st.integers(0, 999_999), st.integers(0, 200))
def test_an_order_is_a_permutation(seed: int, epoch: int, shards: int) -> None:
    assert sorted(shard_order(seed, epoch, shards)) == list(range(shards))


def test_the_order_is_the_same_for_ever() -> None:
    # Golden values: a job that was begun with one release goes on with the next.
    assert shard_order(0, 1, 8) == (1, 3, 4, 0, 7, 5, 6, 2)
    assert shard_order(0, 0, 1) == (0,)


@pytest.mark.parametrize(("seed", "epoch"), [(1, 1), (0, 2)])
def test_another_seed_or_epoch_gives_another_order(seed: int, epoch: int) -> None:
    assert shard_order(seed, epoch, 16) != shard_order(0, 1, 16)


def test_seed_and_epoch_do_not_run_into_each_other() -> None:
    assert shard_order(1, 11, 16) != shard_order(11, 1, 16)
