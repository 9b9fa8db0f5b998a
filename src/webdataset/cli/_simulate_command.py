"""`wds simulate`."""

from __future__ import annotations

from typing import Any

import click

from webdataset import tools
from webdataset.describe import counted

from . import _options
from ._output import console, echo, verb
from ._text_graphics import table

_MOST_READERS = 64


@verb()
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@click.option("--shards", type=_options.COUNT, help="So many shards, instead of INPUTs.")
@click.option(
    "--samples", type=_options.COUNT, default=1000, show_default=True, help="Samples in each of these shards."
)
@click.option("-r", "--ranks", type=_options.COUNT, default=1, show_default=True, help="How many ranks.")
@click.option("-w", "--workers", type=_options.COUNT, default=1, show_default=True, help="Workers of each rank.")
@click.option("-b", "--batch", type=_options.COUNT, default=32, show_default=True, help="Samples in a batch.")
@click.option("--order", "window", type=click.IntRange(0), help="Shards that are mixed at a time; all by default.")
@click.option("--buffer", type=_options.COUNT, default=1000, show_default=True, help="Shuffle buffer to compare with.")
@_options.seed
def command(inputs: tuple[str, ...], shards: int | None, samples: int, **given: Any) -> None:
    """Show which rank and worker reads what, whether all take equally many steps, and how well samples are mixed.

    Example: wds simulate --shards 100 --ranks 8 --workers 4 --batch 64
    """
    if bool(inputs) == (shards is not None):
        raise click.UsageError("give shards, or their number with --shards")
    counts = None if shards is None else [samples] * shards
    found = tools.simulate(inputs or None, counts=counts, **given)
    if console().as_json:
        console().result(_as_dict(found))
        return
    echo(
        f"{counted(found.shards, 'shard')}, {counted(found.samples, 'sample')}, {counted(found.ranks, 'rank')} of "
        f"{counted(found.workers, 'worker')}\n"
    )
    rows: list[Any] = [("rank", "worker", "shards", "samples", "batches")]
    rows += [
        (each.rank, each.worker, each.shards, each.samples, each.batches) for each in found.readers[:_MOST_READERS]
    ]
    echo(table(rows))
    if len(found.readers) > _MOST_READERS:
        echo(f"… and {len(found.readers) - _MOST_READERS} more; --json lists all")
    echo(f"\n{_verdict(found)}\n\n{found.shuffle}")


def _verdict(found: tools.Simulation) -> str:
    fewest, most = min(found.steps_per_rank), max(found.steps_per_rank)
    steps = (
        f"every rank takes {counted(most, 'step')}" if found.equal else f"ranks take from {fewest:,} to {most:,} steps"
    )
    stuck = "" if found.equal else ": all-reduce would hang; use an index, or with_epoch"
    shared = (
        "\nthere are fewer shards than readers: readers share shards, and each reads them whole" if found.shared else ""
    )
    idle = f"\nworkers without a sample: {found.idle}" if found.idle else ""
    padded = f"{counted(found.padding, 'place')} of padding in the last"
    indexed = f"every rank takes {counted(found.indexed_steps, 'step')}, with {padded}"
    return f"without an index: {steps}{stuck}{shared}{idle}\nwith an index:    {indexed}"


def _as_dict(found: tools.Simulation) -> dict[str, Any]:
    names = ("ranks", "workers", "batch", "shards", "samples", "readers", "steps_per_rank", "equal", "idle", "shared")
    kept = {name: getattr(found, name) for name in (*names, "indexed_steps", "padding")}
    return {**kept, "shuffle": {"indexed": found.shuffle.ordered, "buffer": found.shuffle.buffered}}
