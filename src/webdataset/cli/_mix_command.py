"""`wds mix`."""

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
@_options.choice(
    "--stop",
    of="first all never",
    help="End with the first input that ends, with all of them, or never: each begins again.",
)
@click.option("--random", is_flag=True, help="Draw at random by the weights; otherwise every stretch has exact shares.")
@click.option("--samples", type=_options.COUNT, help="End after so many samples.")
@click.option("-R", "--rekey", metavar="FORMAT", help="Number the keys: '{:09d}'.")
@_options.seed
def command(inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Write several datasets as one. An INPUT may have a weight: '2*a-{000..009}.tar'.

    Example: wds mix '3*clean.tar' '1*noisy.tar' -o 'mixed-%06d.tar' -n 1000
    """
    _options.run_and_show(tools.mix, options, [tools.parse_mix_source(text) for text in inputs], output)
