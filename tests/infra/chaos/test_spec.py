import pytest

from infra.local.chaos.spec import ChaosSpec, parse_chaos
from spotgrad.errors import InvalidJob


def test_the_documented_example_is_read() -> None:
    text = (
        "kill=0.15,notice=0.1,duplicate=0.2,delay=3,reorder,corrupt=0.05,throttle=0.1,"
        "aggregator-crash=0.1,seed=1"
    )
    assert parse_chaos(text) == ChaosSpec(
        kill=0.15,
        notice=0.1,
        duplicate=0.2,
        delay=3,
        reorder=True,
        corrupt=0.05,
        throttle=0.1,
        aggregator_crash=0.1,
        seed=1,
    )


def test_what_is_not_asked_for_does_not_happen() -> None:
    assert parse_chaos("kill=1") == ChaosSpec(kill=1.0)
    assert parse_chaos(" seed=7 , reorder ") == ChaosSpec(reorder=True, seed=7)


def test_the_kinds_are_those_asked_for_in_their_own_spelling() -> None:
    assert parse_chaos("aggregator-crash=0.1,reorder,seed=3").kinds == (
        "reorder",
        "aggregator-crash",
    )
    assert parse_chaos("kill=0,seed=3").kinds == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kil=0.1", ["'kil'", 'did you mean "kill"?']),
        ("aggregator_crash=0.1", ['did you mean "aggregator-crash"?']),
        ("xyzzy=1", ["'xyzzy'", "allowed are kill, notice"]),
        ("", ["''", "allowed are kill"]),
        ("kill=0.1,", ["''"]),
        ("kill", ["kill: expected kill= and a probability from 0 to 1"]),
        ("kill=", ["kill=: expected"]),
        ("kill=1.5", ["kill=1.5", "from 0 to 1"]),
        ("kill=-0.1", ["kill=-0.1"]),
        ("kill=nan", ["kill=nan"]),
        ("kill=often", ["kill=often"]),
        ("delay=901", ["delay=901", "seconds from 0 to 900"]),
        ("seed=1.5", ["seed=1.5", "a whole number"]),
        ("seed=-1", ["seed=-1"]),
        ("reorder=1", ["reorder=1", "write reorder alone"]),
        ("kill=0.1,kill=0.2", ["kill is given twice"]),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_write(text: str, words: list[str]) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_chaos(text)
    message = str(caught.value)
    assert message.startswith("--chaos: ")
    assert "\n" not in message
    assert [word for word in words if word not in message] == []
