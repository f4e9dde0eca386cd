"""The tools of a deployment as a user runs them: sam, in a virtual environment of its own.

The Makefile makes the environments; nothing here installs anything.
"""

import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from infra.local.environment import child_environment

ROOT = Path(__file__).resolve().parents[2]
SAM = ROOT / ".venv-deploy" / "bin" / "sam"
FUNCTIONS = ("PlanFunction", "AggregateFunction", "ReconcileFunction")
MOST_SECONDS = 900.0

THIS_MACHINE: Mapping[str, str] = MappingProxyType(
    {
        "PYTHON_VERSION": f"{sys.version_info.major}.{sys.version_info.minor}",
        "PLATFORMS": " ".join(
            f"manylinux{tag}_{platform.machine()}" for tag in ("_2_28", "_2_27", "2014")
        ),
    }
)
"""What the makefile builder is told to build for this interpreter instead of for AWS Lambda."""


def sam(*arguments: str, endpoint_url: str | None = None, **variables: str) -> str:
    """Run sam in the repository's root and return all it said.

    Raises:
        AssertionError: it failed; with what it said.
    """
    extra = {"SAM_CLI_TELEMETRY": "0", "PYTHON": sys.executable, **variables}
    done = subprocess.run(
        [SAM, *arguments],
        cwd=ROOT,
        env=child_environment(endpoint_url, extra=extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"sam {' '.join(arguments)}:\n{done.stdout}"
    return done.stdout


def build(folder: Path, **variables: str) -> Path:
    """Build every function through the makefile builder; return the folder with the artifacts."""
    sam("build", "--no-cached", "--build-dir", str(folder), **variables)
    return folder
