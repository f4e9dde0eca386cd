"""``spotgrad deploy`` and ``spotgrad destroy``: the options, and what is said at the end."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from infra.deploy.sam import ROOT, Wishes, build_command, deploy_command, run_in
from spotgrad.cli.options import AsJson, Stack
from spotgrad.cli.output import Output
from spotgrad.errors import Reject

__all__ = ["deploy", "destroy"]

Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--parameter", metavar="NAME=VALUE", help="A parameter of template.yaml; repeatable."
    ),
]
Guided = Annotated[bool, typer.Option("--guided", help="Let sam ask for every parameter.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before something is changed.")]
YesDeleteData = Annotated[
    bool, typer.Option("--yes-delete-data", help="Delete the bucket even if it holds data.")
]


def deploy(
    *,
    stack: Stack = "spotgrad",
    parameters: Parameters = None,
    guided: Guided = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Build the functions and deploy template.yaml with sam; the commands are printed."""
    from spotgrad.aws.account import AwsAccount

    output, account = Output(as_json=as_json), AwsAccount()
    values = dict(map(_parameter, parameters or ()))
    wishes = Wishes(stack, account.region, values, guided=guided, ask=not yes)
    run, commands = run_in(_root(), output), [build_command(), deploy_command(wishes, _installed())]
    for command in commands:
        run(command)
    facts = account.stack(stack)
    output.say(f"{stack} is {facts.status}: bucket {facts.outputs.get('BucketName')}", "green")
    output.say(f"next: export SPOTGRAD_STACK={stack} SPOTGRAD_BUCKET=stack:{stack}")
    output.say("      spotgrad doctor")
    output.document(
        {
            "stack": stack,
            "status": facts.status,
            "commands": commands,
            "outputs": dict(facts.outputs),
        }
    )


def destroy(
    *,
    stack: Stack = "spotgrad",
    yes: Yes = False,
    yes_delete_data: YesDeleteData = False,
    as_json: AsJson = False,
) -> None:
    """Delete the stack with sam; the bucket goes too if it is empty, or with --yes-delete-data."""
    from infra.deploy.destroy import Consent
    from infra.deploy.destroy import destroy as take_away
    from spotgrad.aws.account import AwsAccount
    from spotgrad.aws.clients import make_clients

    output, consent = Output(as_json=as_json), Consent(yes_delete_data, ask=not yes)
    run = run_in(_root(), output)
    done = take_away(stack, AwsAccount(), make_clients(), consent, run, output)
    output.document(done)


def _installed() -> str:
    return version("spotgrad")


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.isalnum() and equals):
        raise typer.BadParameter(f"--parameter {text}: give it as NAME=VALUE")
    return name, value


def _root() -> Path:
    if not (ROOT / "template.yaml").is_file():
        raise Reject(f"{ROOT}: there is no template.yaml: deploy from a clone of the repository")
    return ROOT
