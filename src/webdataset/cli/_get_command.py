"""`wds get`."""

from __future__ import annotations

import click

from webdataset import tools

from . import _options
from ._output import verb


@verb()
@click.argument("key")
@click.argument("field")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("-o", "--output", default="-", show_default=True, help="Where to write the bytes.")
@click.option("--index", help="Where index files are; by default beside the shards.")
@_options.force
def command(key: str, field: str, inputs: tuple[str, ...], output: str, index: str | None, force: bool) -> None:
    """Write the bytes of FIELD of the sample KEY. With an index, nothing else is read.

    Example: wds get train/000003 txt train-*.tar
    """
    _options.write_bytes(tools.get_field(inputs, key, field, index=index).data, output, force=force)
