"""docs/deploy.md names what exists: commands, parameters, outputs, make targets, files, numbers."""

import re
import tomllib
from pathlib import Path

import pytest
from typer.main import get_group

from infra.local.template import load_template
from infra.local.topology import LOCAL_PSEUDO, TEMPLATE_PATH
from spotgrad.cli.app import app
from spotgrad.cli.quotas import quotas_of

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
TEMPLATE = TEMPLATE_PATH.read_text(encoding="utf-8")
FLEET = (ROOT / "infra" / "worker_fleet.yaml").read_text(encoding="utf-8")


def section(name: str) -> set[str]:
    """Return the logical names in a section of template.yaml."""
    body = re.split(r"^(?=[A-Z]\w+:)", TEMPLATE, flags=re.MULTILINE)
    (found,) = [part for part in body if part.startswith(f"{name}:")]
    return set(re.findall(r"^  (\w+):", found, flags=re.MULTILINE))


def test_every_command_exists() -> None:
    named = set(re.findall(r"\bspotgrad ([a-z]+)", TEXT))
    assert {"deploy", "doctor", "destroy", "submit", "worker"} <= named
    group = get_group(app)
    context = group.make_context("spotgrad", [], resilient_parsing=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    hooked_in = set(project["entry-points"]["spotgrad.commands"])
    assert named - set(group.list_commands(context)) - hooked_in == set()


@pytest.mark.parametrize("pattern", [r"--parameter (\w+)=", r"`([A-Z]\w+)=[^`]*`"])
def test_every_parameter_exists(pattern: str) -> None:
    named = set(re.findall(pattern, TEXT))
    assert named
    assert named <= section("Parameters")


def test_every_output_exists() -> None:
    named = set(re.findall(r"output `(\w+)`", TEXT)) | set(re.findall(r"\$\(stack (\w+)\)", TEXT))
    assert len(named) >= 4
    assert named <= section("Outputs")


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z][a-z0-9-]+)`", TEXT):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_every_file_exists() -> None:
    named = re.findall(r"`((?:worker_image|infra|tests|docs)/[\w./-]+)`", TEXT)
    assert named
    assert [one for one in named if not (ROOT / one).exists()] == []


def test_the_numbers_are_those_of_the_templates() -> None:
    alarms = len(re.findall(r"Type: AWS::CloudWatch::Alarm\b", TEMPLATE))
    assert f"| CloudWatch alarms | {alarms} |" in TEXT
    endpoints = len(re.findall(r"VpcEndpointType: Interface", FLEET))
    assert endpoints == 4
    assert "with `InterfaceEndpoints=true` four" in TEXT
    values = load_template(TEMPLATE_PATH, parameters={}, pseudo=LOCAL_PSEUDO).values
    assert values["ReconcileSchedule"] == "rate(1 minute)"
    assert f"{30 * 24 * 60:,} invocations" in TEXT
    for name in ("VolumeGib", "LogRetentionDays"):
        assert f"`{name}` ({values[name]})" in TEXT


def test_the_quotas_are_those_that_doctor_looks_at() -> None:
    asked = {
        quota.code
        for kind in ("SPOT", "EC2")
        for types in (["g4dn"], ["m5"], ["p3"])
        for quota in quotas_of(kind, types)
    }
    named = set(re.findall(r"`(L-[0-9A-F]{8})`", TEXT))
    assert named == asked
