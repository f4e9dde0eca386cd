"""What must stay true of the worker's image; no container engine is needed to read a Dockerfile."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "worker_image" / "Dockerfile"
LOCKS = ("requirements.txt", "requirements-cuda.txt")
MACHINES = ("cpu", "gpu")
IMAGE = "worker"
Stage = list[tuple[str, str]]


def stages(machine: str) -> dict[str, Stage]:
    """Return the instructions of each stage as MACHINE makes it; the first is its FROM."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = re.sub(r"^(FROM .*)\$\{MACHINE\}", rf"\1{machine}", text, flags=re.MULTILINE)
    lines = [line for line in re.sub(r"\\\n\s*", " ", text).split("\n") if line.strip()]
    found: dict[str, Stage] = {"": []}
    current = found[""]
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            current = found.setdefault(rest.split(" AS ")[1], [])
        current.append((word, rest.strip()))
    assert found.pop("") == [("ARG", "MACHINE=gpu")]
    return found


def lineage(machine: str, name: str = IMAGE) -> Stage:
    """Return what a stage and those that it stands on do, from the bottom."""
    all_stages = stages(machine)
    base = all_stages[name][0][1].split(" AS ")[0]
    return (lineage(machine, base) if base in all_stages else []) + all_stages[name]


def last(word: str, stage: Stage) -> str:
    return [rest for instruction, rest in stage if instruction == word][-1]


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9_.-]+)==(\S+)", text, flags=re.MULTILINE))


@pytest.mark.parametrize("machine", MACHINES)
def test_the_worker_is_no_root_and_the_child_of_tini(machine: str) -> None:
    stage = lineage(machine)
    assert int(last("USER", stage)) >= 10_000
    assert [word for word, _ in stage][-3:] == ["USER", "HEALTHCHECK", "ENTRYPOINT"]
    entry = json.loads(last("ENTRYPOINT", stage))
    assert entry == ["/usr/bin/tini", "--", "/opt/worker/bin/python", "-m", "worker_image"]
    assert any("tini" in rest for word, rest in stage if word == "RUN")
    assert not [rest for word, rest in stage if word == "CMD"]  # the job definition gives the words


@pytest.mark.parametrize("machine", MACHINES)
def test_its_health_is_asked_of_the_worker(machine: str) -> None:
    command = last("HEALTHCHECK", lineage(machine)).partition("CMD ")[2]
    assert json.loads(command)[-1] == "worker_image.health"
    assert (ROOT / "worker_image" / "health.py").is_file()


@pytest.mark.parametrize("machine", MACHINES)
def test_it_says_what_it_is(machine: str) -> None:
    labels = last("LABEL", stages(machine)[IMAGE])
    names = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", labels))
    assert names == {"title", "description", "licenses", "version", "revision"}
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f'image.version="{version[1]}"' in labels


def test_the_image_is_the_last_stage_and_takes_its_machines_environment() -> None:
    for machine in MACHINES:
        made = stages(machine)
        assert list(made)[-1] == IMAGE  # docker build makes it without --target
        assert made["base"][0] == ("FROM", f"{machine}-system AS base")
        assert made["environment"] == [("FROM", f"{machine}-environment AS environment")]
        copied = [rest for word, rest in made[IMAGE] if word == "COPY"]
        assert {rest.split()[0] for rest in copied} == {"--from=environment"}
        assert ("ARG", "MACHINE") in made[IMAGE]  # a stage sees what is global only so


def test_every_base_is_pinned_and_the_gpus_is_the_cuda_of_its_torch() -> None:
    made = stages("gpu")
    bases = {stage[0][1].split(" AS ")[0] for stage in made.values()} - set(made)
    assert all(re.search(r":\d", base) for base in bases), bases
    (cuda,) = [base for base in bases if base.startswith("nvidia/cuda:")]
    runtime = pins("worker_image/requirements-cuda.txt")["nvidia-cuda-runtime"]
    assert cuda.partition(":")[2].split(".")[:2] == runtime.split(".")[:2]


def test_everything_is_installed_from_a_lock_with_hashes_but_the_cpus_torch() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    installs = re.findall(r"pip install (.*)", text)
    assert len(installs) == 4
    for words in installs:
        assert "--no-deps" in words
        assert "--require-hashes" in words or "/wheels/" in words or "torch==" in words
    for lock in LOCKS:
        body = (ROOT / "worker_image" / lock).read_text(encoding="utf-8")
        entries = re.split(r"^(?=[a-z])", body, flags=re.MULTILINE)[1:]
        assert entries
        assert all("--hash=sha256:" in entry for entry in entries)


def test_image_functions_and_gate_run_the_same_versions() -> None:
    gate = {name.replace("_", "-").lower(): pin for name, pin in pins("constraints.txt").items()}
    own = {k: v for lock in LOCKS for k, v in pins(f"worker_image/{lock}").items()}
    for locked in (own, pins("functions/requirements.txt")):
        shared = set(locked) & set(gate)
        assert {"numpy", "boto3", "pydantic", "safetensors"} <= shared
        assert {name: locked[name] for name in shared} == {name: gate[name] for name in shared}
    text = DOCKERFILE.read_text(encoding="utf-8")
    assert f"torch=={gate['torch']}\n" in text


def test_the_functions_lock_holds_no_markers() -> None:
    """Pip takes markers for this machine's Python, not for the one that it installs for."""
    assert ";" not in (ROOT / "functions" / "requirements.txt").read_text(encoding="utf-8")


def test_nothing_enters_the_build_unnamed() -> None:
    rules = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
        if line and not line.startswith("#")
    ]
    assert rules[0] == "*"
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {
        source.split("/")[0]
        for stage in stages("gpu").values()
        for word, rest in stage
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert {name.removeprefix("./") for name in copied} == allowed
