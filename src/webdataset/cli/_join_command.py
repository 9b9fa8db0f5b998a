"""`wds join`."""

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
@click.option("-w", "--with", "others", multiple=True, required=True, help="Shards to add from; may be repeated.")
@click.option("-f", "--field", "fields", multiple=True, help="Add only this field; may be repeated.")
@_options.choice(
    "--missing",
    of="error keep drop",
    help="A sample whose key is not in the added shards: an error, keep it as it is, or leave it out.",
)
@click.option("--replace", is_flag=True, help="Replace fields that the samples have already.")
@_options.engine
def command(
    inputs: tuple[str, ...], output: str, *, others: tuple[str, ...], fields: tuple[str, ...], **options: Any
) -> None:
    """Add the fields of other shards to the samples with the same keys.

    With -o joined.json nothing is copied: datasets read both through this description.

    Example: wds join --with captions.tar --missing keep -o joined/ train-*.tar -j 2
    """
    options["fields"] = fields or None
    _options.run_and_show(
        lambda given, to, how, **rest: tools.join(given, others, to, how, **rest), options, inputs, output
    )
