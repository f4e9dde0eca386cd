import threading

import pytest

from infra.local.scale import Scale


def allowed(scale: Scale, most: int = 8) -> int:
    """How many pollers may poll; those with the lowest numbers."""
    allowed = [scale.allows(number) for number in range(most)]
    assert allowed == sorted(allowed, reverse=True)
    return sum(allowed)


def test_one_poller_begins() -> None:
    assert allowed(Scale(5)) == 1


@pytest.mark.parametrize("received", [10, 11])
def test_every_full_batch_adds_one_up_to_the_most(received: int) -> None:
    scale, seen = Scale(3), []
    for _ in range(4):
        scale.observe(received, 10)
        seen.append(allowed(scale))
    assert seen == [2, 3, 3, 3]


def test_every_empty_receive_takes_one_away_down_to_one() -> None:
    scale, seen = Scale(3), []
    for _ in range(2):
        scale.observe(10, 10)
    for _ in range(4):
        scale.observe(0, 10)
        seen.append(allowed(scale))
    assert seen == [2, 1, 1, 1]


@pytest.mark.parametrize("received", [1, 9])
def test_a_batch_that_is_neither_changes_nothing(received: int) -> None:
    scale = Scale(3)
    scale.observe(10, 10)
    scale.observe(received, 10)
    assert allowed(scale) == 2


def test_batches_of_one_are_a_backlog_whenever_there_is_one() -> None:
    scale = Scale(2)
    scale.observe(1, 1)
    assert allowed(scale) == 2
    scale.observe(0, 1)
    assert allowed(scale) == 1


def test_pollers_may_share_it() -> None:
    scale = Scale(1000)

    def observe() -> None:
        for _ in range(100):
            scale.observe(1, 1)

    threads = [threading.Thread(target=observe) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allowed(scale, 1000) == 801
