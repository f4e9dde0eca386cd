import pytest

from infra.local.delivery import DuplicateEvery, once
from infra.local.records import Record


def batch(*names: int) -> list[Record]:
    return [{"messageId": name} for name in names]


def test_once_changes_nothing() -> None:
    assert once(batch(1, 2)) == [batch(1, 2)]


def test_every_nth_message_comes_twice_counted_across_batches() -> None:
    twice = DuplicateEvery(3)
    assert twice(batch(1, 2)) == [batch(1, 2)]
    assert twice(batch(3, 4, 5, 6)) == [batch(3, 4, 5, 6), batch(3, 6)]
    assert twice(batch(7)) == [batch(7)]
    assert DuplicateEvery(1)(batch(1, 2)) == [batch(1, 2), batch(1, 2)]


def test_a_period_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="0"):
        DuplicateEvery(0)
