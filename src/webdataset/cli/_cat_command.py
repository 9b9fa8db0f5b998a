"""`wds cat`."""

from __future__ import annotations

from typing import Any

import click

from webdataset import tools

from . import _options
from ._output import verb


@verb()
@_options.inputs
@_options.writing
@click.option("-f", "--fields", help="Fields to keep: 'jpg cls', 'jpg,png' for the first of several, 'new:old'.")
@click.option("-s", "--shuffle", type=_options.COUNT, default=None, help="Shuffle in a buffer of so many samples.")
@click.option("--slice", help="A slice of the samples, lo:hi or lo:hi:step.")
@click.option("-R", "--rekey", metavar="FORMAT", help="Number the keys: '{:09d}', or # for the same.")
@click.option("-l", "--load", is_flag=True, help="The inputs are text files that list shards, one per line.")
@_options.seed
def command(inputs: tuple[str, ...], output: str, *, load: bool, **options: Any) -> None:
    """Write the samples of all INPUTs to one output, one shard after the other.

    Example: wds cat train-{000..031}.tar -o - | wds split -n 1000 -o 'new-%06d.tar' -
    """
    options["shuffle"] = options["shuffle"] or 0
    if options["rekey"] == "#":
        options["rekey"] = "{:09d}"
    listed = [url for name in inputs for url in tools.read_shard_list(name)] if load else inputs
    _options.run_and_show(tools.cat, options, listed, output)
