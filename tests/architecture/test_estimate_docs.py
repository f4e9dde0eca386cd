"""docs/estimate.md names options that exist, and its table holds what the model says."""

import re
from pathlib import Path

import pytest
from typer.main import get_group

from spotgrad.cli.app import app
from spotgrad.planning.averaging import LINK_EFFICIENCY
from tests.unit.planning.test_averaging_table import IDEAL, TABLE

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "estimate.md").read_text(encoding="utf-8")
ROWS = {
    "8 x 1 Gb/s": "A",
    "16 x 0.2 Gb/s": "B",
    "both": "C",
    "16 x 0.2 and 1 x 2.5 Gb/s": "D",
}


def test_every_option_exists_and_is_named() -> None:
    group = get_group(app)
    context = group.make_context("spotgrad", [], resilient_parsing=True)
    command = group.get_command(context, "estimate")
    assert command is not None
    known = {name for option in command.params for name in option.opts if name.startswith("--")}
    named = set(re.findall(r"(--[a-z][a-z-]+)", TEXT))
    assert named - known == set()
    silent = known - named
    assert silent == {"--lease-seconds", "--turnaround-seconds"}  # the help says enough


def test_the_readme_leads_here() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "[docs/estimate.md](docs/estimate.md)" in readme


@pytest.mark.parametrize(("label", "name"), ROWS.items(), ids=ROWS.values())
def test_the_table_holds_what_the_model_says(label: str, name: str) -> None:
    cells = [
        f"{ideal / LINK_EFFICIENCY:.2f} ({ideal / LINK_EFFICIENCY / paper - 1:+.0%})"
        for ideal, paper in zip(IDEAL[name], TABLE[name], strict=True)
    ]
    assert f"| {label} | {' | '.join(cells)} |" in TEXT
