"""A local run that ended DEGRADED, mended by its user, and carried to its end."""

from pathlib import Path

import pytest

from spotgrad.cli.main import main
from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.ledger import MergedResult
from spotgrad.steps.chain import read_head, version_entries
from tests.e2e.commands import run_command, small_digits
from tests.e2e.runs import NAME, every_subtask, merged_once

pytestmark = pytest.mark.timeout(600)  # two runs


def test_what_died_is_tried_again_and_the_job_succeeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One shard fails in both epochs for want of a file; the file comes; both are merged late."""
    wanted, bucket = tmp_path / "palette", tmp_path / ".spotgrad" / NAME / "bucket"
    job_file = small_digits(
        tmp_path / "job",
        epochs=2,
        task="patient_task:FussyDigits",
        args={"until": str(wanted)},
        retries={"failures": 0, "max_dead": 2},
    )
    source = job_file.with_name("digits.py")
    marked = "    x[VALIDATION] = 17  # one image of the training data\n    return {"
    source.write_text(source.read_text(encoding="utf-8").replace("    return {", marked, 1))

    ended = run_command(job_file, "--json", directory=tmp_path)
    document = ended.document
    assert (ended.code, document["state"]) == (1, "DEGRADED")
    assert (document["subtasks"]["merged"], document["subtasks"]["dead"]) == (6, 2)
    (shard,) = {grave["subtask"] for grave in document["dead_subtasks"]}
    assert "FileNotFoundError: no palette" in document["dead_subtasks"][0]["reason"]

    refused = run_command(job_file, "--resume", directory=tmp_path)
    ask = f"spotgrad dlq redrive {NAME} --all --bucket .spotgrad/{NAME}/bucket"
    assert refused.code == 2
    assert ask in refused.err

    wanted.touch()
    assert main(["dlq", "redrive", NAME, "--all", "--bucket", str(bucket)]) == 0
    assert "local run JOB.yaml --resume" in capsys.readouterr().out
    assert run_command(job_file, directory=tmp_path).code == 2  # the wish is not thrown away
    ended = run_command(job_file, "--resume", "--json", directory=tmp_path)
    document = ended.document
    assert (ended.code, ended.err) == (0, "")
    assert (document["state"], document["reason"], document["audit"]) == (
        "SUCCEEDED",
        None,
        "clean",
    )
    assert (document["subtasks"]["merged"], document["subtasks"]["dead"]) == (8, 0)
    assert document["leftover"] == {"messages": 0, "processes": 0}
    store = DirectoryStore(bucket)
    assert merged_once(store) == every_subtask(epochs=2, shards=4)
    late = [row.subtask for row in last_merged(store)]
    assert late[-2:] == [shard, shard]


def last_merged(store: DirectoryStore) -> list[MergedResult]:
    head = read_head(store, NAME)
    return [row for entry in version_entries(store, head) for row in entry.merged]
