import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from spotgrad.cli import plugins
from spotgrad.cli.main import main
from spotgrad.directory.store import DirectoryStore
from spotgrad.protocol.keys import HeadKey
from tests.builders import JOB, Bench
from tests.unit.cli.conftest import Run
from tests.unit.cli.jobs import head, put_job, saved


def source(folder: Path, text: str) -> Path:
    path = folder / "made.py"
    path.write_text(f"def arrays():\n    {text}\n")
    return path


def test_without_arguments_the_help_is_shown(run: Run) -> None:
    ran = run()
    assert (ran.code, ran.err) == (0, "")
    assert "Usage: spotgrad" in ran.out


def test_arguments_come_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["spotgrad", "stats"])
    assert main() == 2
    assert "No such command 'stats'" in capsys.readouterr().err


def test_an_interruption_is_130(run: Run, bucket: Path, tmp_path: Path) -> None:
    path = source(tmp_path, "raise KeyboardInterrupt")
    ran = run("dataset", "push", "digits", path, "--json", "--bucket", bucket)
    assert ran.code == 130
    assert ran.err == "spotgrad: interrupted\n"
    assert ran.document == {"error": "interrupted"}


def test_giving_up_at_a_prompt_is_an_interruption(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "hooked_abort.py").write_text(
        "import typer\ndef ask() -> None:\n    raise typer.Abort\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    hook = EntryPoint("ask", "hooked_abort:ask", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [hook])  # noqa: ARG005 - by keyword
    assert run("ask").code == 130


def test_what_the_file_system_refuses_is_one_line(run: Run, bucket: Path, tmp_path: Path) -> None:
    bench = Bench()
    bench.start()
    saved(bench, bucket)
    (tmp_path / "file").touch()
    ran = run("pull", JOB, "--output", tmp_path / "file" / "model", "--bucket", bucket)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"spotgrad: [Errno 17] File exists: '{tmp_path / 'file'}'\n"


def test_a_damaged_bucket_is_a_failure_not_a_usage_error(run: Run, bucket: Path) -> None:
    store = DirectoryStore(bucket)
    put_job(store, head())
    store.put(HeadKey(JOB).render(), b"{}")
    ran = run("status", JOB, "--json", "--bucket", bucket)
    assert ran.code == 1
    assert ran.document["error"].startswith("head: ")


def test_starting_loads_nothing_heavy() -> None:
    code = (
        "import sys, json\n"
        "from spotgrad.cli.main import main\n"
        "code = main(['--help'])\n"
        "heavy = {'numpy', 'torch', 'boto3', 'moto', 'safetensors'} & sys.modules.keys()\n"
        "print(json.dumps([code, sorted(heavy)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [0, []]
