"""Commands from elsewhere: the entry points of the group ``spotgrad.commands``.

The package never imports the applications that stand on it; they hook themselves in, and each is
imported when it is called, not before. One that cannot be imported because its extra is not
installed is still a command: it says what to install.
"""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from spotgrad.errors import Reject

__all__ = ["GROUP", "CommandGroup", "NotInstalled", "load"]

GROUP: Final = "spotgrad.commands"

_HELP: Final = {
    "deploy": "Deploy the stack to an AWS account.",
    "destroy": "Take the stack away again.",
    "local": "Run the whole pipeline on this machine.",
    "worker": "Work through the queue of subtasks on this machine.",
}
"""So that ``--help`` imports nobody: a worker's command may bring torch with it."""


class NotInstalled(Reject):
    """A command whose extra is not installed: a person has to install it."""


class CommandGroup(TyperGroup):
    """The commands of this package, and after them those that are hooked in."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names, hooked-in ones last."""
        own = super().list_commands(ctx)
        return [*own, *sorted(_hooked().keys() - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return an own command, or the outline of a hooked-in one for the help text."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in _hooked():
            return own
        return TyperCommand(cmd_name, help=_HELP.get(cmd_name), callback=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return what is to be called; here, and only here, a hooked-in command is imported."""
        name = args[0]
        if super().get_command(ctx, name) is None and name in _hooked():
            return name, load(_hooked()[name]), args[1:]
        return super().resolve_command(ctx, args)


def load(hook: EntryPoint) -> Any:
    """Return the command behind an entry point: a Typer app is a group, a function a command.

    Raises:
        NotInstalled: something that it imports is not installed.
    """
    try:
        found = hook.load()
    except ImportError as error:
        raise NotInstalled(
            f"{hook.name}: not installed ({_line(error)}): pip install 'spotgrad[{hook.name}]'"
        ) from error
    if isinstance(found, typer.Typer):
        return get_group(found)
    app = typer.Typer(add_completion=False)
    app.command(hook.name)(found)
    return get_command(app)


def _hooked() -> Mapping[str, EntryPoint]:
    return {hook.name: hook for hook in entry_points(group=GROUP)}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
