"""`wds split`, `wds reshard`."""

from __future__ import annotations

import shlex
from functools import partial
from typing import Any

import click

from webdataset import tools
from webdataset.child_processes import run_shell
from webdataset.errors import CommandFailed, Where

from . import _options
from ._output import verb


@verb()
@_options.inputs
@_options.writing
@_options.sizes
@click.option(
    "-p",
    "--post",
    metavar="COMMAND",
    help="Run a shell command after each shard; every %s is its name. A command that fails stops the verb.",
)
def command(inputs: tuple[str, ...], output: str, *, post: str | None, **options: Any) -> None:
    """Write the samples of all INPUTs to shards of another size, in order.

    Example: wds split -n 1000 -o 'new-%06d.tar' old.tar
    """
    options["post"] = partial(run_after, post) if post else None
    _options.run_and_show(tools.split, options, inputs, output)


def run_after(command: str, url: str) -> None:
    """Run a shell command after a shard, whose address is every `%s` in it; an error if it fails."""
    text = command.replace("%s", shlex.quote(url))
    status = run_shell(text, stdout=2)
    if status:
        raise CommandFailed(f"{text!r} ended with status {status}", Where(shard=url), hint="the shard is kept")
