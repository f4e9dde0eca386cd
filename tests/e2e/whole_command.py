"""``spotgrad local run`` as a person types it: what it says, how it ends, what it leaves."""

import re
import signal
from collections import Counter
from pathlib import Path

import pytest
from safetensors.torch import load_file

from infra.local.home import Home
from spotgrad.cli.main import main
from spotgrad.directory.store import DirectoryStore
from spotgrad.steps.chain import read_head
from tests.builders import JOB, Bench
from tests.e2e.commands import Ended, RunningCommand, gone, run_command, small_digits
from tests.e2e.runs import NAME, every_subtask, merged_once

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found in /proc"),
]

LINE = re.compile(
    r"(?P<state>[A-Z]+)  epoch (?P<epoch>\d+)/2  subtasks (?P<done>\d+)/8  version (?P<version>\S+)"
    r"(  accuracy (?P<accuracy>0\.\d{4})  loss \d\.\d{4})?"
    r"  workers [012]  rejected 0  retried 0"
    r"  (?P<time>\d+ s|\d+ min \d\d s)(?P<left>, about .* left)?"
)


def store(directory: Path) -> DirectoryStore:
    return DirectoryStore(directory / ".spotgrad" / NAME / "bucket")


def one_line(ended: Ended) -> str:
    assert ended.out == ""
    assert ended.err.startswith("spotgrad: ")
    assert ended.err.count("\n") == 1
    return ended.err.rstrip("\n").removeprefix("spotgrad: ")


def test_it_shows_its_progress_and_a_summary(tmp_path: Path) -> None:
    job_file = small_digits(tmp_path / "job", epochs=2)
    ended = run_command(job_file, directory=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    shown = [match for line in ended.out.splitlines() if (match := LINE.fullmatch(line))]
    assert {"RUNNING", "SUCCEEDED"} <= {line["state"] for line in shown}
    assert [int(line["done"]) for line in shown] == sorted(int(line["done"]) for line in shown)
    last = shown[-1]
    assert (last["state"], last["epoch"], last["done"]) == ("SUCCEEDED", "2", "8")
    assert float(last["accuracy"]) > 0.8
    _, summary, following = ended.out.split("\n\n")
    assert summary.splitlines()[0] == "SUCCEEDED"
    assert f"  accuracy   {last['accuracy']}" in summary.splitlines()
    assert "  merged     8 of 8 subtasks" in summary.splitlines()
    assert "  audit      clean" in summary.splitlines()
    assert f"spotgrad audit {NAME} --bucket .spotgrad/{NAME}/bucket" in following
    model = load_file(tmp_path / ".spotgrad" / NAME / "model.safetensors")
    assert model["features.0.weight"].shape == (16, 1, 3, 3)


@pytest.mark.timeout(600)  # two runs
def test_ctrl_c_saves_ends_everything_and_resume_goes_on(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.touch()
    job_file = small_digits(
        tmp_path / "job",
        epochs=2,
        task="patient_task:PatientDigits",
        args={"slow_while": str(slow)},
    )

    with RunningCommand(job_file, directory=tmp_path) as command:
        command.read_until(lambda line: line.startswith("RUNNING") and "subtasks 0/" not in line)
        family = command.family()
        modules = Counter(line.partition(" -m ")[2] for line in family.values())
        assert modules["infra.local.server"] == 1
        assert modules["worker_image --leave-with-parent"] == 2
        assert modules["infra.local.runtime functions.aggregate.app.handler"] >= 1
        command.interrupt()
        ended = command.end()

    assert ended.code == 130
    assert gone(family, within_seconds=15)
    assert ended.err.splitlines() == [
        f"spotgrad: saved in .spotgrad/{NAME}; go on with: spotgrad local run {job_file} --resume",
        "spotgrad: interrupted",
    ]
    kept = read_head(store(tmp_path), NAME)
    assert kept.state == "RUNNING"
    assert 1 <= kept.results_merged < 8

    refusal = one_line(run_command(job_file, directory=tmp_path))
    assert "--resume" in refusal
    assert "--fresh" in refusal
    assert read_head(store(tmp_path), NAME) == kept

    slow.unlink()
    ended = run_command(job_file, "--resume", "--json", directory=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    document = ended.document  # all of standard output is one document
    assert (document["state"], document["reason"], document["epoch"]) == ("SUCCEEDED", None, 2)
    assert (document["subtasks"]["total"], document["subtasks"]["merged"]) == (8, 8)
    assert document["subtasks"]["in_flight"] == document["subtasks"]["dead"] == 0
    assert document["metrics"]["accuracy"] > 0.8
    assert (document["audit"], document["chaos"]) == ("clean", {})
    assert document["leftover"] == {"messages": 0, "processes": 0}
    assert load_file(tmp_path / document["model"])
    assert merged_once(store(tmp_path)) == every_subtask(epochs=2, shards=4)
    assert read_head(store(tmp_path), NAME).run == kept.run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_command_no_process_outlives_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    slow = tmp_path / "slow"
    slow.touch()
    job_file = small_digits(
        tmp_path / "job", task="patient_task:PatientDigits", args={"slow_while": str(slow)}
    )
    with RunningCommand(job_file, directory=tmp_path) as command:
        command.read_until(lambda line: line.startswith("RUNNING"))
        family = command.family()
        assert len(family) >= 4
        command.send(number)
        ended = command.end()

    assert gone(family, within_seconds=30)
    if number == signal.SIGTERM:  # as Ctrl-C: saved, to go on with
        assert ended.code == 130
        assert "--resume" in ended.err
        assert read_head(store(tmp_path), NAME).state == "RUNNING"
    else:  # nothing could be saved, and nothing is in the way of the next run
        assert ended.code == -signal.SIGKILL
        refused = run_command(job_file, "--resume", directory=tmp_path)
        assert refused.code == 2
        assert "there is no unfinished run" in one_line(refused)


def test_a_task_that_always_raises_fails_the_job_and_a_finished_run_is_replaced(
    tmp_path: Path,
) -> None:
    finished = Bench()
    finished.start(epochs=1)
    finished.finish()
    home = Home(JOB, tmp_path / ".spotgrad")
    home.save(finished.store)
    job_file = small_digits(
        tmp_path / "job",
        name=JOB,
        task="patient_task:BrokenDigits",
        retries={"failures": 0, "max_dead": 0},
    )
    ended = run_command(job_file, "--json", "--workers", "1", directory=tmp_path)
    assert (ended.code, ended.err) == (1, "")
    document = ended.document
    assert document["state"] == "FAILED"
    assert "ArithmeticError: this task never learns" in document["reason"]
    assert document["subtasks"]["failed"] >= 1
    assert document["audit"] == "clean"
    assert document["leftover"]["processes"] == 0
    assert (document["version"], document["model"]) == (0, f".spotgrad/{JOB}/model.safetensors")
    assert read_head(home.kept, JOB).run != finished.head.run
    assert read_head(home.kept, JOB).state == "FAILED"


BAD_FIELDS = {
    "unknown key": ({"epoch": 3}, 'did you mean "epochs"'),
    "alpha 1.5": ({"merge": {"alpha": 1.5}}, "merge.alpha: 1.5"),
    "missing data set": ({"dataset": "digit"}, "no digit.npz and no digit.py beside job.yaml"),
    "no such task": ({"task": "digit_task:Digits"}, "there is no digit_task.py beside job.yaml"),
    "no such class": ({"task": "digits_task:Digit"}, "has no attribute 'Digit'"),
    "wrong args": ({"args": {"channel": [1, 2]}}, "unexpected keyword argument 'channel'"),
    "no such split": ({"evaluate": {"split": "test"}}, "has no split 'test'"),
}

BAD_FILES = {
    "malformed YAML": ("job.yaml", "name: [digits", "job.yaml: line 1"),
    "a tag": ("job.yaml", "name: !!python/object:os.system x\n", "tag"),
    "an import error": ("digits_task.py", "import nowhere\n", "No module named 'nowhere'"),
    "a syntax error": ("digits.py", "def arrays(:\n", "digits.py: SyntaxError"),
    "too few samples": ("digits.py", "SHARDS = 2000", "1437 samples in split 'train'"),
    "an empty data set": ("digits.py", "VALIDATION = 1797", "split 'train' is empty"),
}


@pytest.fixture
def run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> "RunHere":
    return RunHere(tmp_path, monkeypatch, capsys)


class RunHere:
    """The command in this very process, with every child that it would start forbidden."""

    def __init__(
        self,
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def never(*_: object, **__: object) -> None:
            raise AssertionError("a process of the run was started")

        self.directory = directory
        self._capsys = capsys
        monkeypatch.chdir(directory)
        monkeypatch.setattr("infra.local.child.Child.__init__", never)

    def refused(self, *arguments: str) -> str:
        """Return the one line, having checked that nothing else is left."""
        code = main(["local", "run", "job/job.yaml", *arguments])
        out, err = self._capsys.readouterr()
        assert code == 2
        assert not (self.directory / ".spotgrad").exists()
        return one_line(Ended(code, out, err))


@pytest.mark.parametrize(("fields", "words"), BAD_FIELDS.values(), ids=BAD_FIELDS.keys())
def test_a_wrong_job_is_refused_before_anything_begins(
    run_here: RunHere, fields: dict[str, object], words: str
) -> None:
    small_digits(run_here.directory / "job", **fields)  # type: ignore[arg-type]  # fields of a job file
    assert words in run_here.refused()


@pytest.mark.parametrize(("name", "text", "words"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_wrong_files_are_refused_before_anything_begins(
    run_here: RunHere, name: str, text: str, words: str
) -> None:
    small_digits(run_here.directory / "job")
    path = run_here.directory / "job" / name
    setting = text.partition(" = ")[0]
    present = path.read_text(encoding="utf-8")
    changed = re.sub(rf"(?m)^{setting} = \d+$", text, present) if " = " in text else text
    assert changed != present
    path.write_text(changed, encoding="utf-8")
    assert words in run_here.refused()


def test_a_job_file_or_data_set_that_is_not_there_is_refused(run_here: RunHere) -> None:
    assert "job/job.yaml: No such file or directory" in run_here.refused()
    small_digits(run_here.directory / "job")
    assert "--dataset nowhere.npz: there is no such file" in run_here.refused(
        "--dataset", "nowhere.npz"
    )


def test_a_refused_run_leaves_the_finished_one_as_it_was(run_here: RunHere) -> None:
    small_digits(run_here.directory / "job", dataset="nothing")
    model = run_here.directory / ".spotgrad" / NAME / "model.safetensors"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"of the last run")
    assert main(["local", "run", "job/job.yaml"]) == 2
    assert main(["local", "run", "job/job.yaml", "--resume"]) == 2
    assert [path.name for path in model.parent.iterdir()] == ["model.safetensors"]
    assert model.read_bytes() == b"of the last run"
