"""The document says what the records say, and nothing without them."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reproduce.__main__ import main
from benchmarks.reproduce.cost import cost
from benchmarks.reproduce.document import document
from benchmarks.reproduce.preemption import LOSSES, VARIANTS
from benchmarks.reproduce.records import Records
from benchmarks.reproduce.study import small
from benchmarks.reproduce.verdicts import verdicts


def alpha_row(last: float, scatter: float) -> dict[str, Any]:
    inside = {"low": 0.1, "high": 0.9, "deviation": scatter}
    return {"accuracy": [last / 2, *[last] * 11], "within_epoch": [inside] * 12}


@pytest.fixture
def records(tmp_path: Path) -> Records:
    rows = {"0.7": 0.8, "0.95": 0.85, "0.999": 0.4, "var": 0.86, "single machine": 0.87}
    made = Records(tmp_path / "reproduction")
    made.write("alpha", [(name, alpha_row(last, last / 100)) for name, last in rows.items()])
    return made


def holds(records: Records) -> dict[str, bool | None]:
    return {one.claim: one.holds for one in verdicts(records)}


def test_a_verdict_follows_from_the_numbers(records: Records) -> None:
    before = holds(records)
    rows = records.read("alpha")
    rows["var"] = alpha_row(0.5, 0.0)
    records.write("alpha", rows.items())

    assert before["var is best or near it"] is True
    assert before["0.7 ends on a plateau below the best"] is True
    assert before["alpha 0.7 rises fastest of the constants, 0.999 slowest"] is False
    assert holds(records)["var is best or near it"] is False


def test_a_short_run_says_nothing_of_a_scatter_that_shrinks(records: Records) -> None:
    claim = "var's scatter shrinks with the epochs"
    short = holds(records)
    rows = records.read("alpha")
    early, late = alpha_row(0.86, 0.02), alpha_row(0.86, 0.01)
    rows["var"] = {name: early[name] + late[name] for name in early}
    records.write("alpha", rows.items())

    assert claim not in short
    assert holds(records)[claim] is True


def test_an_experiment_that_was_not_made_has_no_section(records: Records) -> None:
    page = document(records, small())

    assert "## Accuracy against epoch" in page
    assert "| var | 43.0 | 86.0 |" in page
    assert "## Cost" not in page
    assert "## All rules" not in page


def test_preemption_and_cost_have_their_tables(records: Records) -> None:
    names = {name: {"mean": 480.0, "deviation": 1.0} for name in VARIANTS}
    row = {"paper": 480.0, "exact": 480.0, "simulated": names, "runs": 3}
    records.write("preemption", [(str(loss), row) for loss in LOSSES])
    records.write("cost", cost(records.read("preemption")))

    page = document(records, small())

    assert "| the paper's formula | 480 | 480 | 480 | 480 |" in page
    assert "| 0.2 | 1.33 (90.0) | 2.66 (80.0) | 3.99 (70.0) | 5.32 (60.0) |" in page


def test_the_document_is_written_beside_its_records(records: Records) -> None:
    assert main(["document", "--small", "--out", str(records.folder)]) == 0

    page = records.folder.with_suffix(".md").read_text(encoding="utf-8")
    assert page == document(records, small())


def test_a_simulator_that_disagrees_with_the_stack_is_a_failure(
    records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"equal_tensors": 8, "tensors": 9, "audit": "clean", "state": "SUCCEEDED"}
    row |= {"subtasks": 24, "largest_difference": 0.1, "accuracy": 0.9, "simulated_accuracy": 0.8}
    (records.folder / "same.json").write_text(json.dumps({"one worker": row}), encoding="utf-8")

    assert main(["document", "--small", "--out", str(records.folder)]) == 1
    assert "disagree" in capsys.readouterr().err


def test_an_unknown_experiment_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["alpha", "beta"])

    assert "'beta' is none of same, calibration, alpha" in capsys.readouterr().err


def test_fashion_mnist_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="install the Debian package dataset-fashion-mnist"):
        main(["alpha", "--data", str(tmp_path), "--out", str(tmp_path)])
