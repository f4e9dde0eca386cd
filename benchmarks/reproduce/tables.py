"""Markdown tables and numbers as people read them. No experiment is known here."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(share: float) -> str:
    """Return a share in percent, one digit behind the point."""
    return f"{100 * share:.1f}"


def points(difference: float) -> str:
    """Return a difference between two shares in percentage points, two digits."""
    return f"{100 * difference:.2f}"


def signed(number: float) -> str:
    """Return a whole number with its sign."""
    return f"{number:+.0f}"


def listed(numbers: Iterable[float]) -> str:
    """Return shares in percent, with commas."""
    return ", ".join(percent(each) for each in numbers)
