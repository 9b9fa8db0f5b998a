"""`wds stats`."""

from __future__ import annotations

from typing import Any

import click

from webdataset import tools
from webdataset.describe import counted
from webdataset.redact import printable

from . import _options
from ._output import console, echo, verb
from ._text_graphics import bar, table

_MOST_SETS = 10


@verb()
@_options.inputs
@click.option("--histogram/--no-histogram", default=True, show_default=True, help="Draw the sizes of each field.")
@click.option("--index", help="Where index files are; by default beside the shards.")
def command(inputs: tuple[str, ...], histogram: bool, index: str | None) -> None:
    """Count the samples, bytes and fields of all INPUTs, and draw how their sizes are distributed.

    Example: wds stats train-*.tar
    """
    with console().progress("shards") as advance:
        stats = tools.dataset_stats(inputs, index=index, advance=advance)
    if console().as_json:
        console().result(_as_dict(stats))
        return
    echo(
        f"{counted(stats.shards, 'shard')}, {counted(stats.samples.count, 'sample')}, "
        f"{counted(stats.samples.total, 'byte')} in fields\n"
    )
    rows: list[tuple[Any, ...]] = [("field", "samples", "bytes", "smallest", "mean", "largest")]
    for name, sizes in [*stats.fields.items(), ("(sample)", stats.samples), ("(samples per shard)", stats.per_shard)]:
        rows.append((name, sizes.count, sizes.total, sizes.smallest, round(sizes.mean, 1), sizes.largest))
    echo(table(rows))
    if len(stats.field_sets) > 1:
        echo("\nfields of a sample:")
        for names, count in list(stats.field_sets.items())[:_MOST_SETS]:
            echo(f"  {count:>12,}  {printable(names)}")
    if histogram:
        for name, sizes in stats.fields.items():
            echo(f"\n{printable(name)}: bytes")
            _draw(sizes)


def _draw(sizes: tools.Distribution) -> None:
    bins = sizes.histogram()
    most = max((count for _, _, count in bins), default=0)
    for low, high, count in bins:
        echo(f"{low:>13,} – {high:<13,} {bar(count, most, 40):<40} {count:,}")


def _as_dict(stats: tools.DatasetStats) -> dict[str, Any]:
    def numbers(sizes: tools.Distribution) -> dict[str, Any]:
        histogram = [{"from": low, "to": high, "count": count} for low, high, count in sizes.histogram()]
        kept = {name: getattr(sizes, name) for name in ("count", "total", "smallest", "largest", "mean")}
        return {**kept, "histogram": histogram}

    return {
        "shards": stats.shards,
        "samples": numbers(stats.samples),
        "per_shard": numbers(stats.per_shard),
        "fields": {name: numbers(sizes) for name, sizes in stats.fields.items()},
        "field_sets": stats.field_sets,
    }
