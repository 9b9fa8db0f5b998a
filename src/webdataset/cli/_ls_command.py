"""`wds ls`."""

from __future__ import annotations

import click

from webdataset import tools
from webdataset.redact import printable, redacted

from . import _options
from ._output import console, echo, echo_json, echo_line, verb


@verb()
@_options.inputs
@click.option("-l", "--long", is_flag=True, help="Show shard, byte and total size too.")
@click.option("-k", "--keys", is_flag=True, help="Show the keys alone: a list for `wds select --keys`.")
@click.option("-n", "--count", type=click.IntRange(0), help="At most so many samples.")
@click.option("--index", help="Where index files are; by default beside the shards.")
def command(inputs: tuple[str, ...], long: bool, keys: bool, count: int | None, index: str | None) -> None:
    """List the samples of all INPUTs: key, fields and their sizes. Payloads are not read if there is an index.

    Example: wds ls -l train-000.tar
    """
    from itertools import islice

    for listed in islice(tools.list_samples(inputs, index=index), count):
        if console().as_json:
            echo_json(listed)
            continue
        if keys:
            echo_line(listed.key)
            continue
        fields = " ".join(f"{printable(name)}:{size}" for name, size in listed.fields.items())
        offset = "" if listed.offset is None else listed.offset
        place = f"{printable(redacted(listed.shard))}\t{offset}\t{listed.size}\t" if long else ""
        echo(f"{place}{printable(listed.key)}\t{fields}", data=True)
