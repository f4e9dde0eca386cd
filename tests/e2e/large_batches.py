"""The DeDLOC examples from job file to model, by workers of unequal speed: their loss falls."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.local.home import Home
from infra.local.run import RunOptions, local_run
from spotgrad.cli.job import load_job
from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.job_file import parse_job_file
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import read_head
from tests.e2e.runs import copied

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(
    ("name", "epochs", "untrained", "learnt"),
    [("dedloc-albert", 5, 8.2, 6.4), ("dedloc-vision", 6, 4.8, 3.2)],
)
def test_the_loss_falls(
    tmp_path: Path, name: str, epochs: int, untrained: float, learnt: float
) -> None:
    path = copied(EXAMPLES / name, tmp_path / "job")
    fields: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    changed = fields | {"epochs": epochs, "evaluate": {"every_epochs": 1}}
    path.write_text(yaml.safe_dump(changed), encoding="utf-8")
    target = parse_job_file(path.read_bytes()).merge
    home = Home(name, tmp_path / "home")
    with local_run(RunOptions(load_job(path), slow_seconds=(0.0, 0.5)), home) as run:
        status = run.watch(lambda *_: None)
        run.drain()
    store = DirectoryStore(home.bucket)
    head = read_head(store, name)
    losses = [one.metrics["loss"] for one in head.evaluated]
    assert (status.state, status.reason, len(losses)) == ("SUCCEEDED", None, epochs)
    assert losses[-1] < learnt < untrained
    assert losses[-1] < losses[0] < untrained
    assert head.version == head.tally["steps"] > 0
    assert target.rule == "dedloc"
    assert audit(store, name).findings == ()
    assert run.outcome.leftover_messages == {}
