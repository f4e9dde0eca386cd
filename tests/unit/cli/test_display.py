import io
from datetime import timedelta

import pytest
from rich.console import Console

from spotgrad.cli.display import LiveDisplay, PlainDisplay, open_display, state_style
from spotgrad.cli.output import Output
from spotgrad.protocol.head import Counts, Evaluation
from spotgrad.steps.read_status import Status, describe
from tests.builders import JOB, model_ref
from tests.fakes.clock import FakeClock
from tests.unit.cli.jobs import epoch, head, plan


def status(merged: int = 5, **changes: object) -> Status:
    present = head(
        version=merged,
        results_merged=merged,
        epochs=(epoch(2, issued=[0, 1, 2], merged=[0]),),
        evaluated=(Evaluation(epoch=1, model=model_ref(1), metrics={"accuracy": 0.5}),),
        counts=Counts(refused=1, reissued=2),
    )
    return describe(present, plan(), ["a"]).model_copy(update=changes)


WAITING = Status(job=JOB, state="PLANNING")


def test_a_plain_line_is_printed_when_something_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = FakeClock()
    with open_display(Output(as_json=False), clock) as display:
        assert isinstance(display, PlainDisplay)
        display.update(WAITING)
        clock.advance(10)
        display.update(status(5))
        clock.advance(5)
        display.update(status(5))
        display.update(status(5), ["aggregate: 1 errors"])
        clock.advance(5)
        display.update(status(7, subtasks=status(7).subtasks.model_copy(update={"dead": 1})))
        ended = clock.now() + timedelta(seconds=1)
        display.update(status(12, state="SUCCEEDED", updated_at=ended))
    assert capsys.readouterr().out.splitlines() == [
        "PLANNING  epoch -/-  subtasks 0/-  version -  workers 0  rejected 0  retried 0  "
        "not started",
        "RUNNING  epoch 2/3  subtasks 5/12  version 5  accuracy 0.5000  workers 1  rejected 1  "
        "retried 2  10 s, about 14 s left",
        "RUNNING  epoch 2/3  subtasks 5/12  version 5  accuracy 0.5000  workers 1  rejected 1  "
        "retried 2  15 s, about 21 s left  aggregate: 1 errors",
        "RUNNING  epoch 2/3  subtasks 8/12  version 7  accuracy 0.5000  workers 1  rejected 1  "
        "retried 2  dead 1  20 s, about 10 s left",
        "SUCCEEDED  epoch 2/3  subtasks 12/12  version 12  accuracy 0.5000  workers 1  "
        "rejected 1  retried 2  21 s",
    ]


def test_with_json_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with open_display(Output(as_json=True), FakeClock()) as display:
        display.update(status())
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def live(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    return terminal


def test_on_a_terminal_the_last_picture_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = live(monkeypatch)
    with open_display(Output(as_json=False), FakeClock()) as display:
        assert isinstance(display, LiveDisplay)
        display.update(status())
    assert "5 of 12, 2 out" in terminal.getvalue()


def drawn(display: LiveDisplay) -> list[str]:
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as capture:
        console.print(display.render())
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_live_picture_moves_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    live(monkeypatch)
    clock = FakeClock()
    with open_display(Output(as_json=False), clock) as display:
        assert isinstance(display, LiveDisplay)
        assert drawn(display) == ["waiting for the job ..."]
        display.update(status(), ["aggregate: 1 errors"])
        clock.advance(61)
        title, epochs, subtasks, facts, time, note = drawn(display)
        assert title == f"{JOB}  RUNNING"
        assert epochs.startswith("epochs")
        assert epochs.endswith("2 of 3")
        assert subtasks.endswith("5 of 12, 2 out")
        assert facts == "version 5  accuracy 0.5000  workers 1  rejected 1  retried 2"
        assert (time, note) == ("1 min 01 s", "aggregate: 1 errors")


@pytest.mark.parametrize(
    ("shown", "full"),
    [(WAITING, 0), (status(), 13), (status(12, state="SUCCEEDED", epoch=3), 40)],
)
def test_the_epochs_bar_counts_closed_epochs(
    monkeypatch: pytest.MonkeyPatch, shown: Status, full: int
) -> None:
    live(monkeypatch)
    with open_display(Output(as_json=False), FakeClock()) as display:
        assert isinstance(display, LiveDisplay)
        display.update(shown)
        console = Console(file=io.StringIO(), width=120, color_system=None, force_terminal=True)
        with console.capture() as capture:
            console.print(display.render())
        bar = capture.get().splitlines()[1]
    assert bar.count("━") == full


@pytest.mark.parametrize(
    ("state", "style"), [("SUCCEEDED", "green"), ("FAILED", "red"), ("RUNNING", "cyan")]
)
def test_states_have_colours(state: str, style: str) -> None:
    assert state_style(state) == style
