"""`wds select`."""

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
@click.option("-w", "--where", metavar="EXPRESSION", help="Samples for which this is true: 'json.width > 256'.")
@click.option("-k", "--keys", metavar="FILE", help="Samples whose key is in this file, one per line.")
@click.option("-f", "--field", "fields", multiple=True, help="Samples that have this field; may be repeated.")
@click.option("--share", type=click.FloatRange(0, 1), help="A random share of the samples, decided by seed and key.")
@click.option("--invert", is_flag=True, help="The samples that do not fit.")
@click.option("--allow-missing", is_flag=True, help="Keys that no sample has are not an error.")
@_options.seed
@_options.engine
def command(inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Write some of the samples, without unpacking anything.

    In an expression, key is the sample's key, json.a.b an entry of a JSON field, cls a number, txt text; has(jpg),
    size(jpg), len, lower, startswith, matches(key, 'train/*'), hash(key) are functions.

    Example: wds select --where 'json.width >= 256 and has(jpg)' -o large/ train-*.tar -j 2
    """
    _options.run_and_show(tools.select, options, inputs, output)
