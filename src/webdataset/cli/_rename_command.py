"""`wds rename`."""

from __future__ import annotations

from typing import Any

import click

from webdataset import tools

from . import _options
from ._output import verb


@verb()
@_options.inputs
@_options.writing
@_options.limits
@click.option(
    "-f", "--field", "fields", multiple=True, callback=_options.pairs, metavar="NEW=OLD", help="Rename a field."
)
@click.option("-d", "--drop", multiple=True, help="Leave a field out; may be repeated.")
@click.option("-k", "--key", metavar="REGEX=TEXT", help="Replace what matches in keys; \\1 is the first group.")
@click.option("-R", "--rekey", metavar="FORMAT", help="Number the keys: '{:09d}'.")
@_options.engine
def command(inputs: tuple[str, ...], output: str, *, key: str | None, **options: Any) -> None:
    """Write the samples with other names of fields and keys.

    Example: wds rename --field jpg=jpeg --drop txt --key '^train/=' -o renamed/ train-*.tar
    """
    if key is not None:
        pattern, equals, text = key.partition("=")
        if not equals or not pattern:
            raise click.BadParameter(f"expected REGEX=TEXT, got {key!r}", param_hint="--key")
        options["key"] = (pattern, text)
    _options.run_and_show(tools.rename, options, inputs, output)
