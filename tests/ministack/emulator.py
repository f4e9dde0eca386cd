"""ministack as a local run's emulator: where it is installed, and what it is told.

ministack (PyPI, MIT) pins a botocore of its own, hence a virtual environment of its own, which
``make ministack`` makes. Nothing here starts anything, and nothing of ministack is mended: what
the tests meet is what it does.
"""

from pathlib import Path

from infra.local.emulator import Server
from infra.local.topology import LOCAL_PSEUDO

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-ministack" / "bin" / "python"
INSTALLED = ROOT / ".venv-ministack" / ".installed"

MINISTACK = Server(
    "tests.ministack.server",
    {
        "PYTHONPATH": str(ROOT),
        "MINISTACK_PYTHON": str(PYTHON),
        "MINISTACK_ACCOUNT_ID": LOCAL_PSEUDO["AWS::AccountId"],
        "MINISTACK_REGION": LOCAL_PSEUDO["AWS::Region"],
        "LOG_LEVEL": "WARNING",
        # No listener but the one on loopback, and no container engine is asked for anything.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "DOCKER_HOST": "unix:///nonexistent",
    },
)
