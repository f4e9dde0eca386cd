from pathlib import Path

import pytest

from spotgrad.cli.versions import read_versions
from spotgrad.protocol.keys import ModelKey
from tests.builders import JOB, Bench
from tests.unit.cli.conftest import Run
from tests.unit.cli.jobs import saved


@pytest.fixture
def bench() -> Bench:
    """Two shards, two epochs: version 0 and four merges, evaluated after each epoch."""
    made = Bench()
    made.start(shards=2)
    made.finish()
    return made


def test_versions_are_those_of_the_chain(bench: Bench) -> None:
    orphan = ModelKey(JOB, 3, "f" * 16).render()
    bench.store.put(orphan, b"its commit lost")
    rows = read_versions(bench.store, JOB)
    assert [row.version for row in rows] == [0, 1, 2, 3, 4]
    assert [row.results_merged for row in rows] == [0, 1, 2, 3, 4]
    assert [row.closed_epochs for row in rows] == [(0,), (), (1,), (), (2,)]
    assert [row.metrics for row in rows] == [{}, {}, {"accuracy": 0.5}, {}, {"accuracy": 0.5}]
    assert [row.final for row in rows] == [False, False, False, False, True]
    assert all(row.stored for row in rows)
    assert orphan not in {ModelKey(JOB, row.version, row.commit).render() for row in rows}


def test_an_expired_version_is_marked(bench: Bench, run: Run, tmp_path: Path) -> None:
    first = read_versions(bench.store, JOB)[0]
    bench.store.delete(ModelKey(JOB, 0, first.commit).render())
    saved(bench, tmp_path)
    lines = run("versions", JOB, "--bucket", tmp_path).out.splitlines()
    assert lines[0].split() == [
        "VERSION",
        "COMMIT",
        "RESULTS",
        "EPOCH",
        "METRICS",
        "SIZE",
        "CREATED",
    ]
    assert lines[1].split()[:4] == ["0", first.commit, "0", "0"]
    assert lines[1].endswith("expired")
    assert lines[2].endswith("UTC")
    assert lines[5].endswith("final")
    assert "accuracy 0.5000" in lines[5]


def test_the_document_lists_them_too(bench: Bench, run: Run, tmp_path: Path) -> None:
    saved(bench, tmp_path)
    document = run("versions", JOB, "--json", "--bucket", tmp_path).document
    assert document["job"] == JOB
    assert [row["final"] for row in document["versions"]] == [False] * 4 + [True]
    assert document["versions"][2]["metrics"] == {"accuracy": 0.5}


def test_a_job_without_a_version_says_so(run: Run, tmp_path: Path) -> None:
    bench = Bench()
    bench.upload()
    bench.plan()
    saved(bench, tmp_path)
    assert run("versions", JOB, "--bucket", tmp_path).out == f"{JOB} has no version yet\n"
