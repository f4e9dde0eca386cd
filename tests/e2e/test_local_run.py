"""The whole pipeline on one machine, disturbed and undisturbed."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from infra.local.delivery import DuplicateEvery
from infra.local.home import Home
from infra.local.run import RunOptions, local_run
from spotgrad.directory.store import DirectoryStore
from spotgrad.errors import InvalidJob
from spotgrad.protocol.keys import attempts_prefix
from spotgrad.steps.audit import audit
from spotgrad.steps.chain import read_head
from spotgrad.steps.replay import replay
from tests.e2e.runs import NAME, Saboteur, digits, every_subtask, merged_once
from worker_image.task_code import TaskCode

pytestmark = pytest.mark.timeout(300)


def test_a_killed_worker_and_duplicates_change_nothing(tmp_path: Path) -> None:
    """One worker dies mid-subtask; every fifth message of every queue is delivered twice."""
    job = digits(tmp_path / "job")
    home = Home(NAME, tmp_path / "home")
    options = RunOptions(job, deliver=DuplicateEvery(5), slow_seconds=(0.15,))

    with local_run(options, home) as run:
        saboteur = Saboteur(run)
        status = run.watch(saboteur)
        run.drain()

    store = DirectoryStore(home.bucket)
    assert (status.state, status.reason) == ("SUCCEEDED", None)
    assert saboteur.killed is not None
    assert run.outcome.workers_replaced == 1
    assert len(saboteur.duplicated) >= 10 * 2  # of 30: one may come and go between two looks
    assert merged_once(store) == every_subtask(epochs=10)
    assert status.metrics["accuracy"] >= 0.975
    assert audit(store, NAME).findings == ()
    assert run.outcome.leftover_messages == {}
    tries = [
        info.key
        for info in store.list(
            attempts_prefix(NAME, saboteur.killed.epoch, saboteur.killed.subtask)
        )
    ]
    assert len(tries) >= 2  # the killed one, and the one that did the work


def test_an_interrupted_run_goes_on_and_its_model_loads(tmp_path: Path) -> None:
    job = digits(tmp_path / "job", epochs=3)
    home = Home(NAME, tmp_path / "home")

    class Interrupted(Exception):
        pass

    def interrupt(status: object, notes: object) -> None:
        del notes
        if getattr(status, "subtasks").merged >= 10:  # noqa: B009 - a Status
            raise Interrupted

    with pytest.raises(Interrupted), local_run(RunOptions(job), home) as run:
        run.watch(interrupt)
    kept = read_head(DirectoryStore(home.bucket), NAME)
    assert kept.state == "RUNNING"
    assert 10 <= kept.results_merged < 48

    with pytest.raises(InvalidJob, match=r"--resume.*--fresh"), local_run(RunOptions(job), home):
        pass
    with local_run(RunOptions(job, resume=True), home) as run:
        status = run.watch(lambda *_: None)

    store = DirectoryStore(home.bucket)
    head = read_head(store, NAME)
    assert status.state == "SUCCEEDED"
    assert head.run == kept.run
    assert merged_once(store) == every_subtask(epochs=3)
    assert audit(store, NAME).findings == ()
    assert replay(store, NAME, head.version or 0).same
    assert head.final is not None
    model = tmp_path / "model.safetensors"
    model.write_bytes(store.get(head.final.key).body)
    code = TaskCode()
    code.install("0" * 64, store.get(code_key(store)).body)
    task = code.build(job.spec)
    task.load_state_dict(load_file(model), strict=True)
    code.close()


def code_key(store: DirectoryStore) -> str:
    return next(info.key for info in store.list(f"jobs/{NAME}/code-"))
