"""`tensormon`, `tensorstat`, `tensorshow`, `serve-imagenet-shards`: tensorcom's commands, under their names."""

from __future__ import annotations

from typing import Any

import click

from . import _options
from ._output import console, verb

_DEFAULT = ("zsub://127.0.0.1:7880",)


@verb(name="tensormon")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("-r", "--report", type=float, default=10, show_default=True, help="Seconds between two lines.")
@click.option("-c", "--count", type=int, default=-1, help="End after so many batches.")
@click.option("-R", "--raw", is_flag=True, help="Do not decode the arrays.")
def tensormon(urls: tuple[str, ...], *, report: float, count: int, raw: bool) -> None:
    """Show how many batches and samples per second come from URLs."""
    from webdataset.serve import Connection

    with Connection(urls or _DEFAULT, total=count, raw=raw) as connection:
        for _ in connection.items():
            if connection.stats.is_due(report):
                console().say(connection.stats.summary())
        console().result({"messages": connection.stats.messages}, connection.stats.summary())


@verb(name="tensorstat")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("-c", "--count", type=_options.COUNT, default=20, show_default=True, help="Batches to look at.")
def tensorstat(urls: tuple[str, ...], *, count: int) -> None:
    """Show for each array of a batch: count, least, greatest, mean, standard deviation, types and shapes."""
    from webdataset.serve import Connection, array_statistics

    with Connection(urls or _DEFAULT, total=count) as connection:
        found = array_statistics(connection.items())
    lines = [
        f"{number:>3} {each['count']:>6} {each['min']:>12.6g} {each['max']:>12.6g} {each['mean']:>12.6g} "
        f"{each['std']:>12.6g} {each['n']:>12} {' '.join(each['kinds'])}"
        for number, each in enumerate(found)
    ]
    heading = f"{'#':>3} {'count':>6} {'min':>12} {'max':>12} {'mean':>12} {'std':>12} {'n':>12} types"
    console().result(found, "\n".join([heading, *lines]))


@verb(name="tensorshow")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("-B", "--images", type=_options.COUNT, default=1, show_default=True, help="Images of a batch.")
@click.option("-c", "--count", type=_options.COUNT, default=1, show_default=True, help="Batches.")
@click.option("-t", "--timeout", type=float, default=None, help="Seconds to wait for a batch.")
@click.option("-o", "--output", default="tensorshow-%03d.png", show_default=True, help="Files to write the images to.")
def tensorshow(urls: tuple[str, ...], *, images: int, count: int, timeout: float | None, output: str) -> None:
    """Write images of the first array of each batch to files."""
    from pathlib import Path

    from webdataset.codecs import imageencoder
    from webdataset.serve import Connection, as_image

    number = 0
    with Connection(urls or tuple(f"zsub://127.0.0.1:{port}" for port in range(7880, 7884)), total=count) as connection:
        connection.timeout = timeout
        for batch in connection.items():
            for image in batch[0][:images]:
                Path(output % number).write_bytes(imageencoder(as_image(image), "png"))
                number += 1
    console().result({"images": number}, f"wrote {number} images")


@verb(name="serve-imagenet-shards")
@click.argument("urls", nargs=-1, metavar="[ADDRESS]...")
@click.option("-u", "--shards", required=True, help="The shards.")
@click.option("-b", "--batch", type=_options.COUNT, default=32, show_default=True, help="Samples in a batch.")
@click.option("-S", "--shuffle", is_flag=True, help="Shuffle.")
@click.option("-N", "--passes", type=int, default=-1, help="End after so many passes; by default go on.")
@click.option("-r", "--report", type=float, default=10, show_default=True, help="Seconds between two lines.")
def serve_imagenet_shards(urls: tuple[str, ...], *, shards: str, batch: int, passes: int, **options: Any) -> None:
    """Send batches of images (uint8, 224 × 224 × 3) and labels (int32) of SHARDS to ADDRESSes, for ever."""
    from webdataset.serve import Connection, imagenet_batches

    with Connection(urls or ("zpub://127.0.0.1:7880",), report=options["report"]) as connection:
        connection.serve(imagenet_batches(shards, batch, shuffle=options["shuffle"]).repeat(passes), end=passes > 0)
