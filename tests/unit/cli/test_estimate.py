import json
from pathlib import Path
from typing import Any

import pytest

from spotgrad.directory.store import DirectoryStore
from spotgrad.planning.averaging import LINK_EFFICIENCY
from tests.builders import JOB, Bench, job_file, train
from tests.unit.cli.conftest import Ran, Run
from tests.unit.cli.jobs import saved

MEASURED = "measured: mean of 1 attempts, and 0 s between"
PRICES = ("--price", 0.0998, "--on-demand-price", 0.3328)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(folder: Path, **fields: Any) -> Path:
    path = folder / "job.yaml"
    path.write_bytes(job_file(**({"epochs": 10, "workers": {"max": 4}} | fields)))
    return path


def refused(ran: Ran) -> str:
    assert ran.code == 2
    assert ran.err.startswith("spotgrad: ")
    assert ran.err.count("\n") == 1
    return ran.err.removeprefix("spotgrad: ").rstrip("\n")


def test_a_job_is_foreseen_from_a_single_number(run: Run, job: Path) -> None:
    ran = run("estimate", job, "--subtask-seconds", 60, "--boot-seconds", 0, "--json")
    assert ran.code == 0
    document = ran.document
    assert document["job"] == "digits"
    assert document["inputs"]["subtask_seconds"] == {"value": 60.0, "source": "given"}
    outlook = document["outlook"]
    assert (outlook["work"]["epochs"], outlook["work"]["shards"], outlook["work"]["slots"]) == (
        *(10, 16, 4),
    )
    assert outlook["forecast"]["undisturbed_seconds"] == 10 * 4 * 60
    assert outlook["cost"] is None
    assert outlook["transfers"] is None
    assert document["averaging"] is None
    assert any("--extra-samples" in note for note in document["notes"])


def test_a_person_reads_what_it_rests_on_and_what_follows(run: Run, job: Path) -> None:
    ran = run(
        *("estimate", job, "--subtask-seconds", 90, "--shards", 20, "--parameters", "5M"),
        *("--preemption", 0.1, *PRICES),
    )
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "digits  estimate"
    assert "a subtask           90 s          given" in lines
    assert "shards              20            given" in lines
    assert "a machine's start   180 s         assumed" in lines
    assert "a shard             -             not known" in lines
    assert "200 subtasks: 10 epochs of 20, 4 at once, a barrier after each epoch" in lines
    undisturbed = ["no", "preemption", "1", "h", "18", "min", *"----"]
    assert undisturbed in [line.split() for line in lines]
    assert any("n (t_e + p t_o)" in line for line in lines)
    assert any(line.startswith("saved against one machine") for line in lines)
    assert (
        "transfers: 40.0 MB a subtask (a version down, a result up); "
        "8.0 GB of versions and results for the job"
    ) in lines
    assert lines[-1].startswith("note: one machine needs fewer samples")


def test_without_price_or_size_it_says_so(run: Run, tmp_path: Path) -> None:
    job = written(tmp_path, schedule={"issue": "rolling"})
    lines = run("estimate", job, "--subtask-seconds", 5).out.splitlines()
    assert "160 subtasks: 10 epochs of 16, 4 at once, rolling" in lines
    assert "cost: nobody has said a price; give --price, or workers.usd_per_hour" in lines
    assert "transfers: nobody knows how large the model is; give --parameters" in lines


def test_without_a_price_on_demand_there_is_no_comparison(run: Run, job: Path) -> None:
    out = run("estimate", job, "--subtask-seconds", 5, "--price", 0.1).out
    (line,) = (line for line in out.splitlines() if line.startswith("saved against"))
    assert line.split()[-1] == "-"


def test_what_was_measured_in_a_bucket_is_used(run: Run, job: Path, bucket: Path) -> None:
    bench = Bench()
    bench.start(4)
    bench.attempt(train(1, 0), "uploaded", seconds=7)
    saved(bench, bucket)
    ran = run("estimate", job, "--bucket", bucket, "--json")
    inputs = ran.document["inputs"]
    assert inputs["subtask_seconds"] == {"value": 7.0, "source": MEASURED}
    assert inputs["shards"]["value"] == 4
    moved = ran.document["outlook"]["transfers"]
    assert moved["most_per_subtask_bytes"] == moved["per_subtask_bytes"] + 100
    out = run("estimate", job, "--bucket", bucket).out
    assert "where its machine lacks the shard" in out


def test_nothing_is_written(run: Run, job: Path, bucket: Path) -> None:
    run("estimate", job, "--subtask-seconds", 5, "--bucket", bucket)
    assert list(DirectoryStore(bucket).list("")) == []
    assert [path.name for path in job.parent.iterdir() if path.is_file()] == ["job.yaml"]


WARNINGS = {
    "a long subtask": ({}, 300, "subtask: 5 min 00 s, longer than the notice of 120 s"),
    "a deadline": ({"budget": {"deadline": "1h"}}, 100, "budget.deadline: it comes before"),
    "a budget": (
        {"budget": {"max_usd": 0.1}, "workers": {"max": 4, "usd_per_hour": 1}},
        *(100, "budget.max_usd: 0.1 is less than the 5.00 USD that its attempts"),
    ),
    "few shards": ({}, 10, "dataset: 18 training shards for up to 4 subtasks in flight"),
}


@pytest.mark.parametrize(("fields", "seconds", "words"), WARNINGS.values(), ids=WARNINGS.keys())
def test_what_will_not_go_as_wished_is_warned_of(
    run: Run, tmp_path: Path, fields: dict[str, Any], seconds: int, words: str
) -> None:
    job = written(tmp_path, **fields)
    arguments = ("estimate", job, "--subtask-seconds", seconds, "--preemption", 0, "--shards", 18)
    assert words in run(*arguments).err
    assert any(words in one for one in run(*arguments, "--json").document["warnings"])


def test_what_fits_is_not_warned_of(run: Run, tmp_path: Path) -> None:
    budget = {"deadline": "2h", "max_usd": 9}
    job = written(tmp_path, budget=budget, workers={"max": 2, "usd_per_hour": 1})
    ran = run("estimate", job, "--subtask-seconds", 10, "--shards", 20, "--json")
    assert ran.document["warnings"] == []


def peers(run: Run, job: Path, text: str, *more: object) -> Ran:
    return run("estimate", job, "--peers", text, "--parameters", "25557032", *more)


def test_how_peers_would_average(run: Run, job: Path) -> None:
    """The paper's set-up C, of which DeDLOC's table says 5.69, 14.1 and 2.96 s."""
    document = peers(run, job, "8x1Gb/s,16x200Mb/s", "--json").document
    assert document["outlook"] is None
    found = {
        one["strategy"]: one["averaging_seconds"] for one in document["averaging"]["strategies"]
    }
    assert found.pop("bucket") > found["hybrid"]
    assert found == pytest.approx(
        {"all-reduce": 5.69, "parameter server": 14.1, "hybrid": 2.96}, rel=0.2
    )
    assert document["averaging"]["least_seconds"] == pytest.approx(found["hybrid"])
    assert document["averaging"]["exchange"]["efficiency"] == LINK_EFFICIENCY
    shares = document["averaging"]["strategies"][2]["shares"]
    assert shares == pytest.approx([1 / 8] * 8 + [0] * 16)


def test_a_person_reads_who_aggregates_what(run: Run, job: Path) -> None:
    ran = peers(run, job, "8x1Gb/s@60,16x200Mb/s@20", "--target-batch", 4096)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert "hybrid            2.92 s     8.04 s  5.12 s      16x200Mb/s@20" in lines
    assert "8x1Gb/s@60       4.17%       one of them 100.00%  12.50%" in lines
    assert "16x200Mb/s@20    4.17%       0.00%                0.00%" in lines
    assert "target batch           4,096 samples  given" in lines
    assert not any("subtasks:" in line or line.startswith("lease") for line in lines)


def test_many_peers_have_no_bound(run: Run, job: Path) -> None:
    assert "no flow at all" in peers(run, job, "64x1Gb/s").out
    assert "no flow at all" not in peers(run, job, "65x1Gb/s").out


def test_both_at_once(run: Run, job: Path) -> None:
    document = peers(run, job, "2x1Gb/s", "--subtask-seconds", 5, "--json").document
    assert document["outlook"] is not None
    assert document["averaging"] is not None
    assert len(document["notes"]) == 3


KNOWN = ["--subtask-seconds", "5"]
WRONG = {
    "nothing is known": ([], "estimate: nobody knows how long a subtask takes"),
    "no number": (["--peers", "8y1Gb/s"], "--peers: '8y1Gb/s' is no group of peers"),
    "no size": (["--peers", "2x1Gb/s"], "--peers: nobody knows how large the model is"),
    "no peers": (["--peers", "2x1GB/s", "--parameters", "9"], "'2x1GB/s' is no group of peers"),
    "one peer": (["--peers", "1Gb/s", "--parameters", "9"], "averaging needs two at least"),
    "no speed": (
        ["--peers", "2x1Gb/s", "--parameters", "9", "--target-batch", "8"],
        "nobody said how fast peer 1 computes",
    ),
    "no time": (["--subtask-seconds", "0"], "--subtask-seconds"),
    "not a number": (["--subtask-seconds", "nan"], "--subtask-seconds"),
    "no chance": ([*KNOWN, "--preemption", "0.95"], "--preemption"),
    "a negative price": ([*KNOWN, "--price", "-1"], "--price"),
    "no shards": ([*KNOWN, "--shards", "0"], "--shards"),
    "no count": ([*KNOWN, "--parameters", "large"], "--parameters: 'large' is no count"),
    "no bucket": ([*KNOWN, "--like", "digits"], "--like digits: a job lies in a bucket"),
    "a job's name": ([*KNOWN, "--like", "Digits"], "'Digits' is no name of a job"),
    "two rates": (
        [*KNOWN, "--preemption", "0.1", "--preemptions-per-hour", "1"],
        "--preemption and --preemptions-per-hour: give one of them",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG.keys())
def test_wrong_usage_is_one_line(run: Run, job: Path, arguments: list[str], words: str) -> None:
    assert words in refused(run("estimate", job, *arguments))
    ran = run("estimate", job, *arguments, "--json")
    assert words in json.loads(ran.out)["error"]


def test_a_wrong_job_file_is_refused(run: Run, tmp_path: Path) -> None:
    job = written(tmp_path, epoch=3)
    assert 'did you mean "epochs"?' in refused(run("estimate", job, *KNOWN))
    assert "No such file" in refused(run("estimate", tmp_path / "none.yaml", *KNOWN))


def test_a_job_like_another(run: Run, tmp_path: Path, bucket: Path) -> None:
    bench = Bench()
    bench.start(4)
    bench.attempt(train(1, 0), "uploaded", seconds=7)
    saved(bench, bucket)
    job = written(tmp_path, name="next")
    assert run("estimate", job, "--bucket", bucket).code == 2
    ran = run("estimate", job, "--bucket", bucket, "--like", JOB, "--json")
    assert ran.document["inputs"]["subtask_seconds"]["value"] == 7
