"""`wds shuffle`."""

from __future__ import annotations

from typing import Any

import click

from webdataset import tools

from . import _options
from ._output import verb


@verb()
@_options.inputs
@_options.writing
@_options.sizes
@_options.seed
@click.option("--memory", type=_options.Bytes(), default="512MB", show_default=True, help="Samples held at a time.")
@click.option("--tmpdir", "folder", help="Where temporary files go.")
@_options.engine
def command(inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Write all samples in a random order: a full permutation, also of a dataset larger than memory.

    With -o folder/ each shard is shuffled by itself.

    Example: wds shuffle --seed 1 -n 1000 -o 'shuffled-%06d.tar' train-*.tar
    """
    _options.run_and_show(tools.shuffle, options, inputs, output)
