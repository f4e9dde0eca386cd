"""What the layers promise, checked on the code as it is loaded, not as it is drawn."""

import subprocess
import sys

import pytest

HANDLERS = ["functions.plan.app", "functions.aggregate.app", "functions.reconcile.app"]
SETTINGS = {
    "SPOTGRAD_BUCKET": "bucket",
    "SPOTGRAD_SUBTASKS_QUEUE_URL": "http://127.0.0.1:1/queue",
    "SPOTGRAD_FUNCTION_TIMEOUT_SECONDS": "60",
    "SPOTGRAD_LEASE_SECONDS": "120",
}
NEVER_IN_A_FUNCTION = {"torch", "moto", "s3fs", "typer", "rich", "sklearn", "scipy", "pytest"}


def modules_after(statement: str) -> set[str]:
    """Run ``statement`` in a fresh interpreter; return the top-level names of what it loaded."""
    code = (
        f"{statement}; import sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=SETTINGS,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_function_loads_neither_torch_nor_a_test_tool(handler: str) -> None:
    loaded = modules_after(f"from {handler} import handler")

    assert not loaded & NEVER_IN_A_FUNCTION
    assert {"spotgrad", "boto3", "numpy"} <= loaded


def test_the_check_sees_a_forbidden_module() -> None:
    assert "torch" in modules_after("import torch")


def test_the_command_line_starts_without_torch_or_boto3() -> None:
    loaded = modules_after("import spotgrad.cli.main")

    assert not loaded & {"torch", "boto3", "moto", "numpy", "sklearn", "scipy"}


def test_the_core_loads_no_vendor() -> None:
    loaded = modules_after(
        "import spotgrad.steps.aggregate_results, spotgrad.steps.plan_job;"
        "import spotgrad.planning.averaging, spotgrad.planning.forecast"
    )

    assert not loaded & {"boto3", "botocore", "torch", "aws_lambda_powertools", "scipy"}
