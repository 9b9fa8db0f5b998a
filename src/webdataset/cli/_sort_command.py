"""`wds sort`."""

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
@click.option("-b", "--by", default="key", show_default=True, help="Sort key, an expression: cls, json.score.")
@click.option("-r", "--reverse", is_flag=True, help="The largest first.")
@_options.choice("--missing", of="error first last", help="Samples without a value.")
@click.option("--memory", type=_options.Bytes(), default="512MB", show_default=True, help="Samples held at a time.")
@click.option("--tmpdir", "folder", help="Where temporary files go.")
@_options.engine
def command(inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Write all samples in the order of an expression, also of a dataset larger than memory.

    Samples with equal sort keys keep their order. With -o folder/ each shard is sorted by itself.

    Example: wds sort --by json.score --reverse -o 'sorted-%06d.tar' -n 1000 train-*.tar
    """
    _options.run_and_show(tools.sort, options, inputs, output)
