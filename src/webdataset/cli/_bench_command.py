"""`wds bench`."""

from __future__ import annotations

import click

from webdataset import tools
from webdataset.describe import counted

from . import _options
from ._output import console, echo, verb


@verb()
@_options.inputs
@click.option("--decode", default="rgb8", show_default=True, help="What to decode: 'rgb8 audio'; '' only reads.")
@click.option("-j", "--jobs", "workers", type=_options.COUNT, default=2, show_default=True, help="Threads that decode.")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, help="Of each test."
)
@click.option("-n", "--count", "samples", type=_options.COUNT, help="At most so many samples.")
def command(inputs: tuple[str, ...], decode: str, workers: int, seconds: float, samples: int | None) -> None:
    """Measure how fast this machine reads and decodes all INPUTs, and name what holds it back.

    Example: wds bench --seconds 1 train-*.tar
    """
    specs = tuple(decode.split()) or None
    with console().progress("samples") as advance:
        found = tools.bench(inputs, decode=specs, workers=workers, seconds=seconds, samples=samples, advance=advance)
    if console().as_json:
        console().result({"bottleneck": found.bottleneck, "reading": found.reading, "decoding": found.decoding})
        return
    _print("reading", found.reading)
    if found.decoding is not None:
        _print(f"reading and decoding on {workers} threads", found.decoding)
        if console().verbose:
            echo(found.decoding.details)
    last = found.decoding or found.reading
    echo(f"bottleneck: {last.bottleneck} – {last.advice}")


def _print(name: str, pace: tools.Pace) -> None:
    echo(f"{name}: {pace.rate:,.0f} samples/s, {pace.bandwidth / 1e6:,.1f} MB/s ({counted(pace.samples, 'sample')})")
