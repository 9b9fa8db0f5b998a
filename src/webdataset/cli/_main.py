"""`wds`: the verbs, each loaded when it is used."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

import click

from webdataset.child_processes import exit_on

from ._output import Group

# In the order of `wds --help`. The module `_VERB_command` of this package defines each of them as `command`.
_VERBS = (
    "create cat split reshard select partition check ls show get first grep stats diff index query bench simulate "
    "doctor sort shuffle join rename recode proc mix convert serve monitor view"
)
VERBS = _VERBS.split()
_OTHER_NAMES = {"reshard": "split"}


class Verbs(Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in their order."""
        return VERBS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"._{_OTHER_NAMES.get(cmd_name, cmd_name)}_command", __package__)
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the closest verb when there is no such verb."""
        if args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], VERBS, n=1)
            remedy = f"Did you mean {close[0]!r}?" if close else "wds --help lists the verbs."
            ctx.fail(f"There is no verb {args[0]!r}. {remedy}")
        return super().resolve_command(ctx, args)


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        import webdataset

        click.echo(webdataset.__version__)
        ctx.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def wds() -> None:
    """Make, change, check and query datasets of tar shards.

    Inputs and outputs are paths or URLs; '-' is standard input or output. Shell completion:
    eval "$(_WDS_COMPLETE=bash_source wds)".
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run the command; the entry point of `wds`."""
    _open_closed_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):  # as by an interrupt; a terminal that is closed sends the second
        exit_on(number, 128 + number)
    return wds.main(args=arguments, prog_name="wds")


def _open_closed_streams() -> None:
    """Open the null device in place of a standard stream that is closed, as by `wds … >&-`.

    Otherwise the next file that is opened has its number, and what commands print is written into it. Reading from
    standard input and writing to standard output fail then as they should.
    """
    flags = {"stdin": os.O_WRONLY, "stdout": os.O_RDONLY, "stderr": os.O_RDWR}
    for number, name in enumerate(flags):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, flags[name]), True)  # the lowest free number
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
