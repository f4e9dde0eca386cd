import re

import pytest

from spotgrad.cli.quantities import RATE, count_of, rate_of
from spotgrad.errors import InvalidJob


@pytest.mark.parametrize(
    ("text", "bits_per_second"),
    [
        ("1Gb/s", 1e9),
        ("2.5 Gb/s", 2.5e9),
        ("200Mb/s", 2e8),
        ("56kb/s", 56e3),
        ("1e6bps", 1e6),
        (".5Tbit/s", 5e11),
    ],
)
def test_a_rate(text: str, bits_per_second: float) -> None:
    assert re.fullmatch(RATE, text)
    assert rate_of(text) == pytest.approx(bits_per_second)


@pytest.mark.parametrize("text", ["1GB/s", "1Gb", "Gb/s", "-1Gb/s", "1 G b/s", "nanb/s"])
def test_what_is_no_rate(text: str) -> None:
    assert not re.fullmatch(RATE, text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("4972746", 4_972_746), ("25.6M", 25_600_000), ("1e6", 10**6), (" 1.1G ", 1_100_000_000)],
)
def test_a_count(text: str, count: int) -> None:
    assert count_of("--parameters", text) == count


@pytest.mark.parametrize(
    "text", ["", "many", "0", "0.4", "-3", "25,6M", "1e999", "inf", "3 apples"]
)
def test_what_is_no_count_is_refused_by_its_option(text: str) -> None:
    with pytest.raises(InvalidJob, match=r"--parameters: .* is no count above 0; write it as"):
        count_of("--parameters", text)
