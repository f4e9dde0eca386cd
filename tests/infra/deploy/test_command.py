"""The two commands as a person types them, with an executable that stands for sam on the PATH."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from infra.deploy import command
from infra.deploy.sam import ROOT
from spotgrad.cli import plugins
from spotgrad.cli.main import main
from tests.contract.deployment import Deployer

SAM = """#!/bin/sh
echo "sam says: $*"
echo "$PWD $*" >> "$SAM_LOG"
exit ${SAM_CODE:-0}
"""


class Hook:
    """An entry point, for an environment in which this version is not installed yet."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> Any:
        return getattr(command, self.name)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was run: the folder and the words, a line each."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sam").write_text(SAM)
    (folder / "sam").chmod(0o755)
    path = os.environ["PATH"]  # noqa: TID251 - put back by monkeypatch
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{path}")
    monkeypatch.setenv("SAM_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(plugins, "entry_points", lambda **_: [Hook("deploy"), Hook("destroy")])
    return tmp_path / "log"


def run_of(log: Path) -> list[str]:
    return log.read_text().splitlines()


def test_deploy_prints_and_runs_sam_in_the_repository(
    log: Path, deployer: Deployer, capfd: pytest.CaptureFixture[str]
) -> None:
    deployer.stack_of_bucket("trial")
    parameters = ["--parameter", "WorkerImage=a/b:1", "--parameter", "MaxVcpus=8"]
    assert main(["deploy", "--stack", "trial", *parameters]) == 0
    build, deploy = run_of(log)
    assert build == f"{ROOT} build"
    assert deploy.startswith(f"{ROOT} deploy --stack-name trial --region us-east-1 ")
    assert "--resolve-s3 --no-fail-on-empty-changeset --confirm-changeset" in deploy
    assert deploy.endswith("--parameter-overrides WorkerImage=a/b:1 MaxVcpus=8")
    out = capfd.readouterr().out
    assert "$ sam build\n" in out
    assert "\n$ sam deploy --stack-name trial" in out
    assert "SPOTGRAD_BUCKET=stack:trial" in out


def test_deploy_in_json_leaves_stdout_to_the_document(
    log: Path, deployer: Deployer, capfd: pytest.CaptureFixture[str]
) -> None:
    deployer.stack_of_bucket("json")
    assert main(["deploy", "--stack", "json", "--yes", "--json"]) == 0
    said = capfd.readouterr()
    document = json.loads(said.out)
    assert document["outputs"]["BucketName"] == "json-123456789012-us-east-1"
    assert [words[1] for words in document["commands"]] == ["build", "deploy"]
    assert "--no-confirm-changeset" in document["commands"][1]
    assert "sam says: build" in said.err
    assert len(run_of(log)) == 2


def test_a_guided_deployment_leaves_the_questions_to_sam(log: Path, deployer: Deployer) -> None:
    deployer.stack_of_bucket("guided")
    assert main(["deploy", "--stack", "guided", "--guided"]) == 0
    assert run_of(log)[1].endswith("--guided")
    assert "--resolve-s3" not in run_of(log)[1]


def test_what_sam_cannot_build_is_not_deployed(
    log: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAM_CODE", "3")
    assert main(["deploy"]) == 1
    assert len(run_of(log)) == 1
    assert "sam build ended with 3" in capfd.readouterr().err


@pytest.mark.parametrize("text", ["MaxVcpus", "=8", "Max Vcpus=8"])
def test_a_parameter_is_a_name_and_a_value(
    text: str, log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["deploy", "--parameter", text]) == 2
    assert "NAME=VALUE" in capfd.readouterr().err
    assert not log.exists()


def test_without_sam_it_says_how_to_get_it(
    log: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(log.parent))
    assert main(["deploy"]) == 2
    assert "pip install aws-sam-cli" in capfd.readouterr().err


def test_without_a_clone_there_is_nothing_to_deploy(
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    assert main(["deploy"]) == 1
    assert "deploy from a clone" in capfd.readouterr().err
    assert not log.exists()


def test_destroy_says_what_became_of_the_bucket(
    log: Path, deployer: Deployer, capfd: pytest.CaptureFixture[str]
) -> None:
    deployer.client("s3").create_bucket(Bucket="alone-123456789012-us-east-1")
    assert main(["destroy", "--stack", "alone", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {
        "stack": "alone",
        "bucket": "alone-123456789012-us-east-1",
        "bucket_deleted": True,
    }
    assert not log.exists()


def test_destroy_keeps_everything_while_the_stack_stays(
    log: Path, deployer: Deployer, capfd: pytest.CaptureFixture[str]
) -> None:
    deployer.stack_of_bucket("stays")
    assert main(["destroy", "--stack", "stays", "--yes", "--yes-delete-data"]) == 1
    assert run_of(log) == [f"{ROOT} delete --stack-name stays --region us-east-1 --no-prompts"]
    assert "still there" in capfd.readouterr().err
    names = [row["Name"] for row in deployer.client("s3").list_buckets()["Buckets"]]
    assert "stays-123456789012-us-east-1" in names
