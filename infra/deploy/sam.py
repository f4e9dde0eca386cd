"""The sam commands behind ``spotgrad deploy`` and ``spotgrad destroy``, and running them.

Nothing here decides what is deleted. What runs is printed first, word for word, so that anybody can
run it without us.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spotgrad.aws.facts import VERSION_TAG
from spotgrad.cli.output import Output
from spotgrad.cli.plugins import NotInstalled
from spotgrad.errors import Reject

__all__ = [
    "ROOT",
    "Run",
    "SamFailed",
    "Wishes",
    "build_command",
    "delete_command",
    "deploy_command",
    "run_in",
]

ROOT: Final = Path(__file__).resolve().parents[2]
"""The repository: template.yaml and what it names lie there."""
CAPABILITIES: Final = ("CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND")
"""The stack makes roles, and holds a nested stack."""

Run = Callable[[Sequence[str]], None]


class SamFailed(Reject):
    """sam ended with an error; it has said which."""


def build_command() -> list[str]:
    """Return how the functions' artifacts are built."""
    return ["sam", "build"]


@dataclass(frozen=True)
class Wishes:
    """What the person wants deployed, and how."""

    stack: str
    region: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    guided: bool = False
    ask: bool = True


def deploy_command(wishes: Wishes, version: str) -> list[str]:
    """Return how the stack is made or changed; parameters that are not named stay as they were.

    The region is spelt out: sam, like botocore, does not read ``AWS_REGION``.
    """
    command = ["sam", "deploy", "--stack-name", wishes.stack, "--region", wishes.region]
    command += ["--capabilities", *CAPABILITIES, "--tags", f"{VERSION_TAG}={version}"]
    if wishes.guided:
        command.append("--guided")
    else:
        command += ["--resolve-s3", "--no-fail-on-empty-changeset"]
        # spelt out either way: a samconfig.toml may say otherwise
        command.append("--confirm-changeset" if wishes.ask else "--no-confirm-changeset")
    if wishes.parameters:
        values = (f"{name}={value}" for name, value in wishes.parameters.items())
        command += ["--parameter-overrides", *values]
    return command


def delete_command(stack: str, region: str, *, ask: bool) -> list[str]:
    """Return how the stack is deleted; its bucket stays."""
    command = ["sam", "delete", "--stack-name", stack, "--region", region]
    return command if ask else [*command, "--no-prompts"]


def run_in(root: Path, output: Output) -> Run:
    """Return what prints a command and runs it in ``root``, its words where a person reads them.

    Raises (when called):
        NotInstalled: there is no sam.
        SamFailed: it ended with an error.
    """

    def run(command: Sequence[str]) -> None:
        output.say(f"$ {shlex.join(command)}", "bold")
        stdout = sys.stderr if output.as_json else None  # the document alone belongs on stdout
        try:
            code = subprocess.run(command, cwd=root, stdout=stdout, check=False).returncode  # noqa: S603 - sam, with words of ours
        except FileNotFoundError as error:
            raise NotInstalled(
                "sam: not found: pip install aws-sam-cli, best in an environment of its own"
            ) from error
        if code:
            raise SamFailed(f"{shlex.join(command[:2])} ended with {code}: its own words are above")

    return run
