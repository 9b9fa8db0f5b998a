"""`wds cat`."""

from __future__ import annotations

from typing import Any

import click

from . import _options
from ._output import console, verb


@verb()
@_options.inputs
@_options.output
@click.option("-s", "--shuffle", type=int, default=0, help="Shuffle in a buffer of so many samples.")
@_options.seed
@_options.index
@_options.force
def command(inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Write the samples of all INPUTs to one output, one shard after the other."""
    from webdataset.tools import cat

    with console().progress("samples") as advance:
        report = cat(inputs, output, advance=advance, **options)
    _options.show_report(report)
