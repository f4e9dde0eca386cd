"""The house limits that no linter of ours can express."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ["shared/spotgrad", "functions", "worker_image", "infra"]
LONGEST_FILE = 300
LONGEST_FUNCTION_FILE = 60


def product_files() -> Iterator[Path]:
    for part in PRODUCT:
        yield from sorted((ROOT / part).rglob("*.py"))


def test_no_file_is_more_than_one_idea_long() -> None:
    long = {str(path): lines for path in product_files() if (lines := count(path)) > LONGEST_FILE}

    assert not long


@pytest.mark.parametrize("function", ["plan", "aggregate", "reconcile"])
def test_a_function_is_sixty_lines_at_most(function: str) -> None:
    assert count(ROOT / "functions" / function / "app.py") <= LONGEST_FUNCTION_FILE


def test_every_module_says_what_it_is() -> None:
    silent = [str(path) for path in product_files() if not ast.get_docstring(ast.parse(text(path)))]

    assert not silent


def test_every_exception_to_a_rule_carries_its_reason() -> None:
    marks = re.compile(
        r"#\s*(noqa(?!: [A-Z]+\d+(, [A-Z]+\d+)* -+ \S)|type: ignore(?!\[[a-z-]+\]  # \S))"
    )
    bare = [
        f"{path}:{number}"
        for path in [*product_files(), *sorted((ROOT / "tests").rglob("*.py"))]
        for number, line in enumerate(text(path).splitlines(), 1)
        if marks.search(line) and path != Path(__file__)
    ]

    assert not bare


def test_tests_never_sleep() -> None:
    sleepers = [
        str(path)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "sleep(" in text(path) and path != Path(__file__)
    ]

    assert not sleepers


def count(path: Path) -> int:
    return len(text(path).splitlines())


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
