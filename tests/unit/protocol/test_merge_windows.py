"""How few results a robust rule may look at."""

from typing import Any

import pytest

from spotgrad.errors import InvalidJob
from spotgrad.protocol.job_file import parse_job_file
from tests.builders import job_plan


def parse(section: str) -> Any:
    text = f"name: d\ntask: m:T\ndataset: d\nepochs: 1\nmerge: {section}\n"
    return parse_job_file(text.encode()).merge


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{rule: median, size: 2}", "size: 2 is too few for median: expected at least 3"),
        ("{rule: trimmed-mean, size: 4, trim: 2}", "expected at least 2 trim + 1 = 5"),
        ("{rule: krum, size: 4}", "size: 4 is too few for krum: expected at least 2 bad + 3 = 5"),
        ("{rule: krum, size: 6, best: 6}", "expected at least best + bad = 7"),
        (
            "{rule: centered-clipping, size: 1}",
            "size: 1 is too few for centered-clipping",
        ),
    ],
)
def test_a_window_that_is_too_small_is_refused(section: str, said: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse(section)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{rule: trimmed-mean, trim: 128}", "would need 2 trim + 1 = 257 results at once"),
        ("{rule: krum, bad: 127}", "krum would need 2 bad + 3 = 257 results at once"),
        ("{rule: krum, best: 256}", "best + bad = 257 results at once: expected at most 256"),
    ],
)
def test_a_rule_that_needs_too_large_a_window_is_refused(section: str, said: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse(section)
    assert said in str(caught.value)


def test_the_smallest_window_of_each_rule_is_fine() -> None:
    assert parse("{rule: krum, size: 7, bad: 2}").window(1) == 7
    assert parse("{rule: trimmed-mean, size: 5, trim: 2}").window(1) == 5


def test_left_out_it_is_k_or_the_least() -> None:
    merge: Any = job_plan(merge={"rule": "krum"}).spec.merge
    assert [merge.window(k) for k in (1, 5, 16, 5000)] == [5, 5, 16, 256]
