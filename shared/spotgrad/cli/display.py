"""The display of a running job: redrawn on a terminal, one line per change elsewhere.

Fed with ``Status`` documents and, by ``local run``, notes about its own processes; knows nothing of
where they come from. ``watch`` and ``local run`` show exactly the same.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from spotgrad.cli.output import Output
from spotgrad.cli.pace import Pace, duration_text
from spotgrad.ports import Clock
from spotgrad.steps.read_status import Status

__all__ = ["Display", "open_display", "state_style"]

_BAR_WIDTH: Final = 40
_STYLES: Final = {
    "SUCCEEDED": "green",
    "DEGRADED": "yellow",
    "PAUSED": "yellow",
    "FAILED": "red",
    "CANCELLED": "red",
}


class Display(Protocol):
    """Whatever shows a job's progress."""

    def update(self, status: Status, notes: Sequence[str] = ()) -> None:
        """Show ``status``; ``notes`` are lines that matter now, such as a function's errors."""
        ...


@contextmanager
def open_display(output: Output, clock: Clock) -> Iterator[Display]:
    """Yield the display that suits the output: live, plain lines, or nothing with ``--json``."""
    timing = _Timing(clock)
    if not output.live:
        yield PlainDisplay(output, timing)
        return
    live = LiveDisplay(timing)
    with Live(get_renderable=live.render, console=output.console, refresh_per_second=4) as screen:
        yield live
        screen.refresh()


class PlainDisplay:
    """One line when something changed; for files, pipes and NO_COLOR."""

    def __init__(self, output: Output, timing: "_Timing") -> None:
        self._output = output
        self._timing = timing
        self._shown: tuple[object, ...] | None = None

    def update(self, status: Status, notes: Sequence[str] = ()) -> None:
        """Print a line if anything but the time differs from the last one."""
        self._timing.observe(status)
        facts = (_facts(status), tuple(notes))
        if facts != self._shown:
            self._shown = facts
            self._output.say("  ".join([*_facts(status), self._timing.text(status), *notes]))


class LiveDisplay:
    """Bars and facts, drawn anew several times a second so that the time moves on."""

    def __init__(self, timing: "_Timing") -> None:
        self._timing = timing
        self._status: Status | None = None
        self._notes: Sequence[str] = ()

    def update(self, status: Status, notes: Sequence[str] = ()) -> None:
        """Take over what the next redraw shows."""
        self._timing.observe(status)
        self._status, self._notes = status, notes

    def render(self) -> RenderableType:
        """Return the display as of now."""
        status = self._status
        if status is None:
            return Text("waiting for the job ...", style="dim")
        title = Text.assemble((status.job, "bold"), "  ", (status.state, state_style(status.state)))
        facts = Text("  ".join(_counts(status)))
        notes = [Text(note, style="yellow") for note in self._notes]
        time = Text(self._timing.text(status), style="dim")
        return Group(title, _bars(status), facts, time, *notes)


class _Timing:
    """Elapsed time and time left."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pace = Pace()

    def observe(self, status: Status) -> None:
        self._pace.observe(self._clock.monotonic(), _done(status))

    def text(self, status: Status) -> str:
        if status.started_at is None:
            return "not started"
        end = status.updated_at if status.ended else None
        elapsed = (end or self._clock.now()) - status.started_at
        text = duration_text(elapsed.total_seconds())
        left = self._pace.seconds_left((status.subtasks.total or 0) - _done(status))
        if status.state != "RUNNING" or left is None:
            return text
        return f"{text}, about {duration_text(left)} left"


def state_style(state: str) -> str:
    """Return the colour of a job's state."""
    return _STYLES.get(state, "cyan")


def _done(status: Status) -> int:
    return status.subtasks.merged + status.subtasks.dead


def _facts(status: Status) -> tuple[str, ...]:
    """Return the plain line's parts, without the time."""
    subtasks = f"subtasks {_done(status)}/{_number(status.subtasks.total)}"
    epoch = f"epoch {_number(status.epoch)}/{_number(status.epochs)}"
    return (status.state, epoch, subtasks, *_counts(status))


def _counts(status: Status) -> tuple[str, ...]:
    counts = status.subtasks
    metrics = [f"{name} {value:.4f}" for name, value in sorted(status.metrics.items())]
    dead = [f"dead {counts.dead}"] if counts.dead else []
    return (
        f"version {_number(status.version)}",
        *metrics,
        f"workers {status.workers}",
        f"rejected {counts.rejected}",
        f"retried {counts.retried}",
        *dead,
    )


def _bars(status: Status) -> Table:
    table = Table.grid(padding=(0, 2))
    closed = status.epoch if status.state == "SUCCEEDED" else (status.epoch or 1) - 1
    rows = (
        (
            "epochs",
            closed or 0,
            status.epochs,
            f"{_number(status.epoch)} of {_number(status.epochs)}",
        ),
        (
            "subtasks",
            _done(status),
            status.subtasks.total,
            f"{_done(status)} of {_number(status.subtasks.total)}, {status.subtasks.in_flight} out",
        ),
    )
    for label, completed, total, text in rows:
        bar = ProgressBar(total=total or 1, completed=completed, width=_BAR_WIDTH)
        table.add_row(label, bar, text)
    return table


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
