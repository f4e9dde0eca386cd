from pathlib import Path

import pytest

from spotgrad.cli.pull import pull_model
from spotgrad.cli.versions import read_versions
from spotgrad.errors import Malformed, NotFound
from spotgrad.protocol.keys import ModelKey
from spotgrad.protocol.tensors import decode, digest
from tests.builders import JOB, Bench
from tests.unit.cli.conftest import Run
from tests.unit.cli.jobs import saved


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.start(shards=2)
    made.finish()
    return made


def key(bench: Bench, version: int) -> str:
    return ModelKey(JOB, version, read_versions(bench.store, JOB)[version].commit).render()


def test_the_final_version_is_pulled_and_loads(bench: Bench, run: Run, tmp_path: Path) -> None:
    saved(bench, tmp_path / "bucket")
    target = tmp_path / "new" / "m.safetensors"
    ran = run("pull", JOB, "--output", target, "--json", "--bucket", tmp_path / "bucket")
    body = target.read_bytes()
    assert ran.document == {
        "job": JOB,
        "path": str(target),
        "version": 4,
        "sha256": digest(body),
        "size_bytes": len(body),
    }
    assert body == bench.store.get(key(bench, 4)).body
    assert decode(body).tensors["weight"].shape == (2, 2)


def test_the_default_is_a_file_in_the_working_directory(
    bench: Bench, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(bench, tmp_path / "bucket")
    monkeypatch.chdir(tmp_path)
    ran = run("pull", JOB, "--bucket", "bucket")
    assert ran.out.startswith("version 4 of digits, ")
    assert ran.out.endswith(": model.safetensors\n")
    assert Path("model.safetensors").read_bytes() == bench.store.get(key(bench, 4)).body


def test_any_version_may_be_pulled_into_a_folder(bench: Bench, tmp_path: Path) -> None:
    pulled = pull_model(bench.store, JOB, 1, tmp_path)
    assert pulled.path == tmp_path / "model.safetensors"
    assert pulled.path.read_bytes() == bench.store.get(key(bench, 1)).body


def test_a_running_job_gives_its_latest(tmp_path: Path) -> None:
    bench = Bench()
    bench.start(shards=2)
    bench.aggregate(bench.trained(1, 0))
    assert pull_model(bench.store, JOB, None, tmp_path).version == 1


def test_an_earlier_version_that_was_made_final_is_the_default(
    bench: Bench, tmp_path: Path
) -> None:
    early = bench.head.evaluated[0].model
    bench.tamper(bench.head.model_copy(update={"final": early}))
    assert pull_model(bench.store, JOB, None, tmp_path).version == early.version == 2


def test_what_is_not_there_is_named(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="digits has no version 9; the latest is 4"):
        pull_model(bench.store, JOB, 9, tmp_path)
    bench.store.delete(key(bench, 1))
    with pytest.raises(NotFound, match=r"version 1 of digits has expired; rebuild it: spotgrad re"):
        pull_model(bench.store, JOB, 1, tmp_path)
    unborn = Bench()
    unborn.upload()
    unborn.plan()
    for version in (None, 0):
        with pytest.raises(NotFound, match="digits has no version yet: it is PLANNING"):
            pull_model(unborn.store, JOB, version, tmp_path)
    assert not list(tmp_path.iterdir())


def test_other_bytes_than_those_committed_are_not_written(bench: Bench, tmp_path: Path) -> None:
    bench.store.put(key(bench, 4), bench.store.get(key(bench, 3)).body)
    with pytest.raises(Malformed, match="not the bytes that were committed"):
        pull_model(bench.store, JOB, None, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_average_is_pulled_where_there_is_one(run: Run, tmp_path: Path) -> None:
    bench = Bench()
    bench.start(shards=2, merge={"ema": 0.9})
    bench.finish()
    saved(bench, tmp_path / "bucket")
    objects = bench.head.objects
    pulled = pull_model(bench.store, JOB, None, tmp_path)
    assert pulled.sha256 == objects["ema"].sha256 != objects["server"].sha256
    options = ("--copy", "server", "--output", tmp_path / "m", "--json")
    ran = run("pull", JOB, *options, "--bucket", tmp_path / "bucket")
    assert ran.document["sha256"] == objects["server"].sha256
    first = pull_model(bench.store, JOB, 1, tmp_path, copy="server")
    assert first.path.read_bytes() == bench.store.get(key(bench, 1)).body
    rows = read_versions(bench.store, JOB)
    assert [row.version for row in rows if row.final] == [4]
    assert [row.version for row in rows if row.metrics] == [2, 4]


def test_a_copy_that_the_job_does_not_keep_is_named(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="version 4 of digits has no ema copy"):
        pull_model(bench.store, JOB, None, tmp_path, copy="ema")
