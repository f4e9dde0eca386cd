import pytest
import torch

from spotgrad.protocol.result import Failed
from worker_image.failure import failed
from worker_image.watch import Watch


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raised(error: BaseException) -> Failed:
    with pytest.raises(type(error)) as caught:
        raise error
    return failed(caught.value, at_batch(3))


def at_batch(number: int | None, samples: int = 2) -> Watch:
    watch = Watch(lambda: None)
    watch.batch_idx = number
    if number is not None:
        watch.rows, watch.shard = torch.arange(samples).flip(0), "datasets/tiny/shard"
    return watch


def test_a_failure_says_what_in_one_line_and_where_in_full() -> None:
    report = raised(ValueError("label 7 is not known\nsecond line"))
    assert report.error == "ValueError: label 7 is not known"
    assert report.batch_idx == 3
    assert (report.shard, report.rows) == ("datasets/tiny/shard", (1, 0))
    assert report.traceback.startswith("Traceback (most recent call last):")
    assert "in raised" in report.traceback
    assert report.traceback.rstrip().endswith("second line")


def test_of_a_long_traceback_the_end_is_kept() -> None:
    report = raised(ValueError("x" * 50_000 + "end"))
    assert len(report.error) == 500
    assert len(report.traceback) == 20_000
    assert report.traceback.rstrip().endswith("xend")


def test_a_syntax_error_says_so_in_its_line() -> None:
    with pytest.raises(SyntaxError) as caught:
        compile("def f(:", "task.py", "exec")
    assert failed(caught.value, at_batch(None)).error == "SyntaxError: invalid syntax"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KeyError(), "KeyError"),
        (SystemExit(3), "SystemExit: 3"),
        (Unprintable(), "Unprintable: <exception str() failed>"),
        (ValueError("\ud800"), "ValueError: ?"),
    ],
)
def test_odd_exceptions_make_reports_that_can_be_written(error: BaseException, line: str) -> None:
    report = raised(error)
    assert report.error.rpartition(".")[2] == line
    assert Failed.model_validate_json(report.model_dump_json()) == report


def test_notes_do_not_hide_the_error() -> None:
    error = ValueError("first")
    error.add_note("a note")
    assert raised(error).error == "ValueError: first"


def test_of_a_large_batch_the_first_samples_are_named() -> None:
    report = failed(ValueError(), at_batch(0, samples=1_000))
    assert report.rows == tuple(range(999, 999 - 256, -1))
    nowhere = failed(ValueError(), at_batch(None))
    assert (nowhere.batch_idx, nowhere.shard, nowhere.rows) == (None, None, ())
