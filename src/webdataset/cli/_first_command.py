"""`wds first`."""

from __future__ import annotations

import click

from webdataset import tools

from . import _options
from ._output import console, verb


@verb()
@_options.inputs
@click.option("-f", "--fields", help="Fields to look for, the best first: 'jpg png'; by default pictures.")
@click.option("--where", help="Only samples for which this expression is true: 'cls > 3'.")
@click.option("-o", "--output", default="-", show_default=True, help="Where to write the bytes.")
@_options.force
def command(inputs: tuple[str, ...], fields: str | None, where: str | None, output: str, force: bool) -> None:
    """Write the bytes of a field of the first sample that has it, and its name to standard error.

    Example: wds first -f jpg --where 'cls == 2' train-*.tar -o first.jpg
    """
    write_first(inputs, fields, where, output, force=force)


def write_first(
    inputs: tuple[str, ...], fields: str | None, where: str | None, output: str, *, force: bool = False
) -> None:
    """Write the bytes of a field of the first sample that has it; also used by `tarfirst`."""
    wanted = tools.PICTURES if fields is None else tuple(fields.replace(";", " ").replace(",", " ").split())
    got = tools.first_field(inputs, wanted, where=where)
    console().say(f"{got.key}.{got.field}")
    _options.write_bytes(got.data, output, force=force)
