from pathlib import Path

import pytest

from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.keys import HeadKey
from spotgrad.steps.chain import walk_back
from tests.builders import JOB, Bench
from tests.unit.cli.conftest import Run
from tests.unit.cli.jobs import saved


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start(shards=2)
    made.finish()
    return made


@pytest.fixture
def store(bench: Bench, bucket: Path) -> DirectoryStore:
    return saved(bench, bucket)


@pytest.mark.usefixtures("store")
def test_a_clean_job_passes_its_audit(run: Run, bucket: Path) -> None:
    ran = run("audit", JOB, "--bucket", bucket)
    assert ran.code == 0
    assert "5 versions (5 rebuilt bit for bit, 0 without their inputs), 4 results" in ran.out
    assert ran.out.endswith(": clean\n")
    assert run("audit", JOB, "--json", "--bucket", bucket).document["findings"] == []


def test_a_forged_head_is_found(
    run: Run, bucket: Path, bench: Bench, store: DirectoryStore
) -> None:
    forged = bench.head.model_copy(update={"results_merged": 5})
    store.put(HeadKey(JOB).render(), forged.to_json())
    ran = run("audit", JOB, "--json", "--bucket", bucket)
    assert ran.code == 1
    assert len(ran.document["findings"]) == 1
    lines = run("audit", JOB, "--bucket", bucket).out.splitlines()
    assert lines[0] == ran.document["findings"][0]
    assert lines[1].endswith(": 1 finding")


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_version_is_rebuilt_bit_for_bit(
    run: Run, bucket: Path, bench: Bench, store: DirectoryStore, version: int, tmp_path: Path
) -> None:
    target = tmp_path / "rebuilt"
    arguments = ("replay", JOB, "--version", version, "--bucket", bucket)
    ran = run(*arguments, "--json", "--output", target)
    assert ran.code == 0
    assert ran.document["same"]
    assert ran.document["sha256"] == ran.document["committed_sha256"]
    assert (ran.document["results"], ran.document["output"]) == (version, str(target))
    (stored,) = store.list(f"models/{JOB}/{version:08d}-")
    assert target.read_bytes() == bench.store.get(stored.key).body
    lines = run(*arguments, "--output", target).out.splitlines()
    assert lines[0].endswith("is the committed one, bit for bit")
    assert lines[1].endswith(f"in {target}")


@pytest.mark.usefixtures("store")
def test_without_an_output_nothing_is_written(run: Run, bucket: Path) -> None:
    ran = run("replay", JOB, "--version", 1, "--json", "--bucket", bucket)
    assert (ran.code, ran.document["output"]) == (0, None)


@pytest.mark.usefixtures("store")
def test_a_version_that_does_not_exist_fails(run: Run, bucket: Path) -> None:
    ran = run("replay", JOB, "--version", 9, "--bucket", bucket)
    assert (ran.code, ran.out) == (1, "")
    assert "there is no version 9; the latest is 4" in ran.err


def test_a_version_that_differs_is_no_success(
    run: Run, bucket: Path, bench: Bench, store: DirectoryStore
) -> None:
    key, entry = next(
        (key, entry) for key, entry in walk_back(store, bench.head) if entry.server is not None
    )
    store.put(key, entry.model_copy(update={"server_coefficient": 0.25}).to_json())
    ran = run("replay", JOB, "--version", 4, "--bucket", bucket)
    assert ran.code == 1
    assert ran.out.splitlines()[0].endswith("DIFFERS from the committed")
