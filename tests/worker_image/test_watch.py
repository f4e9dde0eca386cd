import pytest
import torch

from worker_image.watch import Watch

BATCHES = [torch.tensor([2, 0]), torch.tensor([1, 3]), torch.tensor([4])]


def test_it_knows_the_batch_at_hand_and_checks_after_each() -> None:
    checks: list[tuple[int | None, int]] = []
    watch = Watch(lambda: checks.append((watch.batch_idx, watch.worked)))
    assert (watch.batch_idx, watch.rows) == (None, None)
    for index, rows in watch.over(BATCHES[:2]):
        assert watch.batch_idx == index
        assert watch.rows is rows is BATCHES[index]
    assert checks == [(0, 1), (1, 2)]


def test_it_passes_over_what_is_done_and_counts_what_is_left() -> None:
    left: list[int | None] = []
    watch = Watch(lambda: left.append(watch.left))
    watch.left = 7
    assert [index for index, _ in watch.over(BATCHES, passed=1)] == [1, 2]
    assert left == [6, 5]
    assert watch.worked == 2
    assert list(watch.over(BATCHES, passed=3)) == []


def test_what_a_check_raises_comes_out_of_the_loop() -> None:
    def check() -> None:
        raise TimeoutError

    watch = Watch(check)
    with pytest.raises(TimeoutError):
        list(watch.over(BATCHES))
    assert (watch.batch_idx, watch.worked) == (0, 1)
