import pytest

from worker_image.watch import Watch


def test_it_knows_the_batch_at_hand_and_checks_after_each() -> None:
    checks: list[int | None] = []
    watch = Watch(lambda: checks.append(watch.batch_idx))
    assert watch.batch_idx is None
    for index, batch in watch.over("ab"):
        assert watch.batch_idx == index == "ab".index(batch)
    assert checks == [0, 1]


def test_what_a_check_raises_comes_out_of_the_loop() -> None:
    def check() -> None:
        raise TimeoutError

    watch = Watch(check)
    with pytest.raises(TimeoutError):
        list(watch.over([1, 2]))
    assert watch.batch_idx == 0
