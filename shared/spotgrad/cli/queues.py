"""The dead-letter queues, from a terminal: how much lies in them, and sending it back.

Not the dead subtasks of a job, which ``dlq`` reads from its head: what lies here are messages that
were delivered too often, of any job. Each queue is named by the variable that its readers know.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from spotgrad.cli.output import Output
from spotgrad.errors import SpotgradError
from spotgrad.ports import DeadLetters, TaskSender
from spotgrad.settings import MissingSetting, QueueSettings, read, variable
from spotgrad.steps.redrive_messages import redrive_messages

__all__ = ["QueueChoice", "Row", "count_dead_letters", "list_queues", "redrive_queues", "say_rows"]

QueueName = Literal["uploads", "results", "subtasks"]
QueueChoice = Literal["uploads", "results", "subtasks", "all"]
NAMES: Final[Sequence[QueueName]] = get_args(QueueName)


@dataclass(frozen=True)
class Row:
    """One queue of ``dlq list --json``; ``dead_letters`` is as SQS counts, roughly."""

    queue: str
    dead_letters: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Redriven:
    """One queue of ``dlq redrive --queue --json``."""

    queue: str
    moved: int | None = None
    left: int | None = None
    problem: str | None = None


def list_queues(output: Output) -> bool:
    """Print how many messages lie in each dead-letter queue; return whether all could be asked.

    Raises:
        MissingSetting: no queue is named.
    """
    rows = count_dead_letters()
    if not rows:
        raise MissingSetting(f"no queue is named: set one of {', '.join(map(_variable, NAMES))}")
    output.document({"queues": rows})
    say_rows(rows, output)
    return not any(row.problem for row in rows)


def count_dead_letters() -> Sequence[Row]:
    """Return a row for each queue that is named; one that cannot be asked says so in it."""
    return [_count(name, url) for name, url in _urls().items()]


def say_rows(rows: Sequence[Row], output: Output) -> None:
    """Print the rows, and what a person does about messages that lie there."""
    if not rows:
        return
    output.table(
        ["QUEUE", "DEAD LETTERS", "PROBLEM"],
        [[row.queue, row.dead_letters, row.problem] for row in rows],
    )
    full = [row.queue for row in rows if row.dead_letters]
    if full:
        name = full[0] if len(full) == 1 else "all"
        output.say(f"next: spotgrad dlq redrive --queue {name}")


def redrive_queues(choice: QueueChoice, output: Output) -> bool:
    """Send dead letters back to their queues; return whether every queue gave what it had.

    Raises:
        MissingSetting: a queue that is asked for is not named.
    """
    urls = _urls()
    wanted = NAMES if choice == "all" else (choice,)
    for name in wanted:
        if name not in urls:
            raise MissingSetting(f"--queue {choice}: set {_variable(name)} to the queue's URL")
    rows = []
    for row in (_redriven(name, urls[name]) for name in wanted):
        output.say(_told(row), "red" if row.problem else None)
        rows.append(row)
    output.document({"queues": rows})
    return not any(row.problem for row in rows)


def _urls() -> Mapping[QueueName, str]:
    settings = read(QueueSettings)
    urls: Iterator[tuple[QueueName, str | None]] = (
        (name, getattr(settings, _field(name))) for name in NAMES
    )
    return {name: url for name, url in urls if url is not None}


def _field(name: QueueName) -> str:
    return f"{name}_queue_url"


def _variable(name: QueueName) -> str:
    return variable(_field(name))


def _open(url: str) -> tuple[DeadLetters, TaskSender]:
    # boto3 takes half a second to import: only here.
    from spotgrad.aws.clients import make_clients
    from spotgrad.aws.dead_letters import dead_letters_of
    from spotgrad.aws.sqs import SqsQueue

    sqs = make_clients().sqs
    return dead_letters_of(sqs, url), SqsQueue(sqs, url)


def _count(name: QueueName, url: str) -> Row:
    try:
        return Row(name, dead_letters=_open(url)[0].depth())
    except SpotgradError as error:
        return Row(name, problem=_line(error))


def _redriven(name: QueueName, url: str) -> Redriven:
    try:
        moved = redrive_messages(*_open(url))
    except SpotgradError as error:
        return Redriven(name, problem=_line(error))
    return Redriven(name, moved.messages, moved.left)


def _told(row: Redriven) -> str:
    if row.problem:
        return f"{row.queue}: {row.problem}"
    left = f", {row.left} lie there still: run it again in a minute" if row.left else ""
    return f"{row.queue}: {row.moved} messages sent back{left}"


def _line(error: SpotgradError) -> str:
    return " ".join(str(error).split())
