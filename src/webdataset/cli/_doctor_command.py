"""`wds doctor`."""

from __future__ import annotations

import click

from webdataset import tools

from ._output import console, echo, verb


@verb()
@click.argument("addresses", nargs=-1, metavar="[ADDRESS]...")
def command(addresses: tuple[str, ...]) -> None:
    """Show what this machine has and what is missing, and test whether each ADDRESS can be read.

    An ADDRESS is a shard, or a folder or bucket that ends in '/'. The exit code is 1 if there is a problem.

    Example: wds doctor train-000.tar
    """
    found = tools.doctor(addresses)
    if console().as_json:
        console().result(found)
    else:
        for diagnosis in found:
            echo(diagnosis)
    click.get_current_context().exit(1 if any(each.state is tools.State.BAD for each in found) else 0)
