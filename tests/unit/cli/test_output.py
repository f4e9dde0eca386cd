import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spotgrad.cli.output import Output, size_text


def test_with_json_only_the_document_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    output.say("words")
    output.warn("careful")
    output.table(["A"], [[1]])
    output.document(
        {"at": datetime(2030, 1, 1, tzinfo=UTC), "path": Path("a"), "nan": float("nan")}
    )
    out, err = capsys.readouterr()
    assert json.loads(out) == {"at": "2030-01-01T00:00:00Z", "path": "a", "nan": None}
    assert err == ""


def test_for_a_person_there_is_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=False)
    output.document({})
    output.say("[bold]as it is[/bold] :smile: " + "long " * 50)
    output.warn("careful")
    out, err = capsys.readouterr()
    assert out == "[bold]as it is[/bold] :smile: " + "long " * 50 + "\n"
    assert err == "warning: careful\n"


def test_tables_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).table(["NAME", "N", ""], [["a", 10, "x"], ["longer", None, ""]])
    assert capsys.readouterr().out == "NAME    N\na       10  x\nlonger  -\n"


@pytest.mark.parametrize(
    ("terminal", "no_color", "as_json", "live"),
    [
        (True, False, False, True),
        (False, False, False, False),
        (True, True, False, False),
        (True, False, True, False),
    ],
)
def test_redrawing_needs_a_terminal_with_colours(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool, no_color: bool, as_json: bool, live: bool
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout", Terminal())
    assert Output(as_json=as_json).live == live


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (57_856, "57.9 kB"), (2 * 10**13, "20.0 TB")],
)
def test_sizes_read_well(size: int, text: str) -> None:
    assert size_text(size) == text


def test_the_next_command_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).advise("list")
    Output(as_json=False, bucket="my bucket").advise_going_on("watch digits")
    Output(as_json=False, bucket="left/bucket", at_rest=True).advise_going_on("watch digits")
    assert capsys.readouterr().out.splitlines() == [
        "next: spotgrad list",
        "next: spotgrad watch digits --bucket 'my bucket'",
        "next: spotgrad local run JOB.yaml --resume",
    ]
