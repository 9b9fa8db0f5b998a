"""`wds query`."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from itertools import islice
from typing import Any

import click

from webdataset import tools

from . import _options
from ._output import console, echo, echo_line, verb
from ._text_graphics import table


@verb()
@click.argument("sql")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--keys", is_flag=True, help="Print the column `key` alone: a list for `wds select --keys`.")
@click.option("--parquet", metavar="FILE", help="Write the answer to a parquet file.")
@click.option("-n", "--count", type=click.IntRange(0), default=1000, show_default=True, help="Most rows of a table.")
@click.option("--index", help="Where index files are; by default beside the shards.")
@_options.force
def command(sql: str, inputs: tuple[str, ...], keys: bool, parquet: str | None, count: int, **options: Any) -> None:
    """Query the table `samples` in SQL; only the fields that the query names are read.

    Columns: key, shard, number, offset, size, sizes (sizes.jpg), and each field that SQL names: JSON with its paths
    (json.width is a number; text is json->>'label'), cls as a number, txt as text. Needs the extra `query`.

    Example: wds query "select key, json.width from samples where json.width > 252" train-*.tar
    """
    progress = console().progress("shards")
    with progress as advance, tools.query(sql, inputs, parquet=parquet, advance=advance, **options) as answer:
        if parquet is not None:
            console().say(f"written to {parquet}")
        elif keys:
            for key in answer.keys():  # noqa: SIM118 - a method, not a dict's
                echo_line(key)
        elif console().as_json:
            for row in answer.rows():
                cells = {name: _plain(value) for name, value in zip(answer.columns, row, strict=True)}
                echo(json.dumps(cells), data=True)
        else:
            rows = list(islice(answer.rows(), count + 1))
            echo(table([answer.columns, *([_plain(value) for value in row] for row in rows[:count])]), data=True)
            if len(rows) > count:
                console().say(f"… more rows; --json or --parquet give all, -n {10 * count} more of them")


def _plain(value: Any) -> Any:
    """A value of DuckDB as a value of JSON."""
    if isinstance(value, dt.date | dt.time | dt.timedelta):
        return str(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value
