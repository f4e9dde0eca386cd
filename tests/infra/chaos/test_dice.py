import threading

from infra.local.chaos.dice import Dice, Tally


def test_a_probability_holds_on_the_long_run() -> None:
    dice = Dice(1, "kill")
    hits = sum(dice.hit(0.15) for _ in range(10_000))
    assert 1_350 < hits < 1_650
    assert all(dice.hit(1.0) for _ in range(100))
    assert not any(dice.hit(0.0) for _ in range(100))


def test_seed_and_kind_make_the_stream() -> None:
    def stream(seed: int, kind: str) -> list[bool]:
        dice = Dice(seed, kind)
        return [dice.hit(0.5) for _ in range(64)]

    assert stream(1, "kill") == stream(1, "kill")
    assert stream(1, "kill") != stream(2, "kill")
    assert stream(1, "kill") != stream(1, "notice")


def test_a_calm_is_the_end_of_it() -> None:
    calm = threading.Event()
    dice = Dice(1, "kill", calm)
    assert dice.hit(1.0)
    calm.set()
    assert not dice.hit(1.0)


def test_choices_stay_in_their_bounds_and_reach_them() -> None:
    dice = Dice(1, "kill")
    assert {dice.whole(0, 3) for _ in range(200)} == {0, 1, 2, 3}
    assert {dice.pick("ab") for _ in range(100)} == {"a", "b"}
    assert all(0 <= dice.seconds(0.5) <= 0.5 for _ in range(100))
    items = [1, 2, 3]
    shuffles = [dice.shuffled(items) for _ in range(100)]
    assert all(sorted(one) == items for one in shuffles)
    assert len({tuple(one) for one in shuffles}) == 6
    assert items == [1, 2, 3]


def test_a_tally_starts_at_nothing_for_each_kind_asked_for() -> None:
    tally = Tally(["kill", "notice"])
    tally.add("kill")
    tally.add("kill", 2)
    assert tally.snapshot() == {"kill": 3, "notice": 0}
