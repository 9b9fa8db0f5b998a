"""`wds diff`."""

from __future__ import annotations

import click

from webdataset import tools
from webdataset.describe import counted

from ._output import console, echo_json, echo_line, verb


@verb()
@click.argument("first")
@click.argument("second")
@click.option("--sizes", is_flag=True, help="Compare the sizes of fields, not their bytes.")
@click.option("-n", "--count", type=click.IntRange(0), help="Print at most so many differences.")
def command(first: str, second: str, sizes: bool, count: int | None) -> None:
    """Compare two datasets by key, whatever their order and their shards; the exit code is 1 if they differ.

    Example: wds diff 'train-*.tar' 'train-{000..031}.tar'
    """
    found = 0
    with console().progress("samples") as advance:
        for difference in tools.diff(first, second, sizes_only=sizes, advance=advance):
            found += 1
            if count is not None and found > count:
                continue
            (echo_json if console().as_json else echo_line)(difference)
    console().say(counted(found, "difference") if found else "the same samples")
    click.get_current_context().exit(1 if found else 0)
