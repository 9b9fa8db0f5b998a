"""`wds serve`."""

from __future__ import annotations

from typing import Any

import click

from webdataset import tools

from . import _options
from ._output import console, verb


@verb()
@click.argument("pipeline", nargs=-1, metavar="PIPELINE...")
@click.option(
    "--bind", default="tcp://127.0.0.1:7880", show_default=True, help="Where to listen; port * is a free one."
)
@click.option("-j", "--threads", type=_options.COUNT, default=1, show_default=True, help="Steps made at a time.")
@click.option("--keys", metavar="FILE", help="worker.key; needed unless the address is loopback.")
@click.option("--insecure", is_flag=True, help="Listen without keys where others can connect.")
@click.option("--new-keys", metavar="DIR", help="Write worker.key and trainer.key into DIR, and end.")
@click.option(
    "--cache", type=_options.Bytes(), default="1GiB", show_default=True, help="Made items kept for other jobs."
)
@click.option("--to", "urls", multiple=True, help="Send a stream instead: zpush://, zpub:// and others of tensorcom.")
@click.option("-b", "--batch", type=_options.COUNT, help="Of shards: samples in a batch.")
@click.option("--decode", help="Of shards: how images are decoded, such as rgb; '' decodes all but images.")
@click.option("--fields", help="Of shards: what a sample is made of, such as 'jpg cls'.")
@click.option("--order", type=_options.order, help="Of shards: random, quasi-random, or shards mixed at a time.")
@_options.seed
def command(pipeline: tuple[str, ...], *, new_keys: str | None, urls: tuple[str, ...], **options: Any) -> None:
    """Make the items of an indexed PIPELINE for trainers that connect with wds.connect.

    PIPELINE is module:function or file.py:function, which returns the dataset; or shards. Start it on as many machines
    as needed, with the same arguments: workers are independent of each other, and a trainer notices if they differ.

    For other machines make keys first, then: wds serve data.py:make --bind tcp://0.0.0.0:7880 --keys keys/worker.key

    Example: wds serve --new-keys keys
    """
    from webdataset.serve import Worker, write_keys

    if new_keys is not None:
        worker, trainer = write_keys(new_keys)
        console().result({"worker": str(worker), "trainer": str(trainer)}, f"wrote {worker} and {trainer}")
        return
    if not pipeline:
        raise click.UsageError("PIPELINE is missing: module:function, or shards")
    make = _pipeline(pipeline, options)
    if urls:
        _send(make, urls)
        return
    settings = {name: options[name] for name in ("threads", "keys", "insecure", "cache")}
    server = Worker(make, options["bind"], **settings)
    console().result({"address": server.address}, f"serving at {server.address}")
    server.serve()


def _pipeline(words: tuple[str, ...], options: dict[str, Any]) -> Any:
    from functools import partial

    from webdataset.serve import shard_pipeline

    if len(words) == 1 and tools.names_function(words[0]):
        return tools.load_function(words[0])
    return partial(
        shard_pipeline,
        words,
        batch=options["batch"] or 0,
        decode=options["decode"],
        fields=(options["fields"] or "").split(),
        seed=options["seed"],
        index=True,
        order=options["order"],
    )


def _send(make: Any, urls: tuple[str, ...]) -> None:
    from webdataset.serve import Connection

    with Connection(list(urls), allow64=True) as connection:
        console().say(f"sending to {' '.join(urls)}: no order, no checkpoint, no keys")
        connection.serve(make())
