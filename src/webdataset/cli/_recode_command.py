"""`wds recode`."""

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
@click.option("-f", "--field", "fields", multiple=True, help="Recode this field; by default all named like an image.")
@click.option("--short", type=_options.COUNT, help="The shorter side, at most.")
@click.option("--long", "longest", type=_options.COUNT, help="The longer side, at most.")
@click.option("--crop", type=_options.COUNT, help="Cut the centre to a square.")
@click.option("--format", "format", help="New format: jpg, png, webp, raw (ppm), npy.")
@click.option("--quality", type=click.IntRange(1, 100), help="Quality of jpg, webp and avif.")
@_options.choice(
    "--failed", of="stop skip keep", help="An image that cannot be decoded: stop, skip its sample, or keep it as it is."
)
@_options.engine
def command(inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Write the samples with images of another size, quality or format.

    Images are never enlarged; one that fits already is kept byte for byte unless a quality is given.

    Example: wds recode --short 256 --format jpg --quality 90 -o small/ train-*.tar -j 2
    """
    _options.run_and_show(tools.recode, options, inputs, output)
