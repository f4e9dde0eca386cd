import subprocess
import sys
from importlib.metadata import version

import pytest

from spotgrad.cli import start


def started(*statements: str) -> subprocess.CompletedProcess[str]:
    """Start in a fresh interpreter, after these statements."""
    code = "; ".join((*statements, "from spotgrad.cli.start import main", "sys.exit(main())"))
    return subprocess.run(
        [sys.executable, "-c", f"import sys; {code}"], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("missing", ["typer", "rich", "boto3"])
def test_without_its_extra_the_command_says_what_to_install(missing: str) -> None:
    command = ["spotgrad", "list", "--bucket", "some-bucket"]
    done = started(f"sys.modules['{missing}'] = None", f"sys.argv = {command}")
    assert (done.returncode, done.stdout) == (start.USAGE, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("spotgrad: the command line is not installed (")
    assert missing in line
    assert line.endswith("pip install 'spotgrad[cli]'")


def test_what_is_missing_for_another_reason_is_no_secret() -> None:
    done = started("sys.modules['pydantic'] = None")
    assert done.returncode == 1
    assert "pydantic" in done.stderr.splitlines()[-1]


def test_the_package_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spotgrad", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"spotgrad {version('spotgrad')}\n"


def test_with_it_the_command_line_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["spotgrad", "no-such-command"])
    assert start.main() == start.USAGE
