"""How a local run ended: the document of ``--json``, and the summary for a person.

Reads the saved bucket alone, as every later command does. A job without a model, or one that was
refused before it had a head, is reported like any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.local.chaos.aftermath import read_aftermath
from infra.local.home import Home
from infra.local.run import Outcome
from spotgrad.cli.display import state_style
from spotgrad.cli.output import Output
from spotgrad.cli.pull import pull_model
from spotgrad.errors import Malformed, NotFound
from spotgrad.steps.audit import audit
from spotgrad.steps.documents import find_head
from spotgrad.steps.read_status import Status


@dataclass(frozen=True)
class Report:
    """What the run came to."""

    document: Mapping[str, Any]

    @property
    def good(self) -> bool:
        """Whether the job SUCCEEDED and the audit found nothing."""
        return (self.document["state"], self.document["audit"]) == ("SUCCEEDED", "clean")


def make_report(outcome: Outcome, home: Home) -> Report:
    """Audit the saved bucket, pull its model to ``home.model``, and put all into one document."""
    if outcome.status is None:
        raise ValueError("the run was never watched")
    model, findings = _judge(outcome.status, home)
    return Report(
        {
            **outcome.status.model_dump(by_alias=True),
            "model": model,
            "audit": list(findings) or "clean",
            "chaos": outcome.chaos,
            "leftover": {
                "messages": sum(outcome.leftover_messages.values()),
                "processes": outcome.leftover_processes,
            },
        }
    )


def show_report(report: Report, home: Home, output: Output) -> None:
    """Print it, for a program or for a person."""
    document = report.document
    output.document(document)
    output.say()
    reason = f": {document['reason']}" if document["reason"] else ""
    output.say(f"{document['state']}{reason}", style=state_style(document["state"]))
    for label, text in _facts(document).items():
        output.say(f"  {label:10} {text}")
    if document["model"]:
        output.say()
        output.say("next:")
        output.say("  from safetensors.torch import load_file")
        output.say(f"  load_file('{document['model']}')  # for your task's load_state_dict")
        output.say(f"  spotgrad versions {home.job} --bucket {home.bucket}")
        output.say(f"  spotgrad audit {home.job} --bucket {home.bucket}")


def show_chaos(outcome: Outcome, home: Home, output: Output) -> None:
    """Say what was injected and what became of it; nothing in a run without chaos."""
    if not outcome.chaos or outcome.status is None or find_head(home.kept, home.job) is None:
        return
    after = read_aftermath(
        home.kept, outcome.status.job, outcome.functions, outcome.workers_replaced
    )
    output.say()
    rows = [(kind, count, after.of(kind)) for kind, count in sorted(outcome.chaos.items())]
    output.table(("chaos", "injected", "what became of it"), rows)


def _judge(status: Status, home: Home) -> tuple[Path | None, Sequence[str]]:
    """Return where the final (or the latest) model was put, and what the audit found."""
    store = home.kept
    found = find_head(store, home.job)
    if found is None:  # a refused job has no head, and none that counts results is refused
        lost = status.version is not None
        return None, ["the bucket was not saved: the local AWS emulator ended"] if lost else ()
    findings = audit(store, home.job).findings
    if found.head.version is None:
        return None, findings
    try:
        return pull_model(store, home.job, None, home.model).path, findings
    except (NotFound, Malformed) as error:
        return None, (*findings, f"the model cannot be pulled: {error}")


def _facts(document: Mapping[str, Any]) -> dict[str, str]:
    counts = document["subtasks"]
    facts = {name: f"{value:.4f}" for name, value in sorted(document["metrics"].items())}
    if counts["total"] is not None:
        facts["merged"] = f"{counts['merged']} of {counts['total']} subtasks"
    if document["version"] is not None:
        facts["version"] = str(document["version"])
    audited = document["audit"]
    facts["audit"] = audited if audited == "clean" else "; ".join(audited)
    left = {what: number for what, number in document["leftover"].items() if number}
    if left:
        facts["left over"] = ", ".join(f"{number} {what}" for what, number in left.items())
    if document["model"]:
        facts["model"] = str(document["model"])
    return facts
