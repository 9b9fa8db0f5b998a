"""`wds index`: create, update, info, sample."""

from __future__ import annotations

import sys
from typing import Any

import click

from webdataset import tools
from webdataset.describe import counted
from webdataset.redact import redacted

from . import _options
from ._output import Group, Verb, console, echo, echo_line, printing

_place = click.option("--index", "place", help="Where index files are; by default beside the shards.")
_workers = click.option(
    "-j", "--jobs", "workers", type=_options.COUNT, default=4, show_default=True, help="Shards at a time."
)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Write and look at index files (DALI's format) and descriptions of datasets (wids' format)."""


@command.command("create", cls=Verb)
@_options.inputs
@click.option("-o", "--output", help="Write a description of the dataset to this file, such as train.json.")
@click.option("--name", help="The dataset's name in the description.")
@click.option("--dali/--no-dali", default=True, show_default=True, help="Write an index file for each shard.")
@_place
@_workers
@_options.force
def create(inputs: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Read all INPUTs once and write their index files, and a description with -o.

    Example: wds index create -o train.json train-*.tar
    """
    with console().progress("shards") as advance:
        made = tools.create_index(inputs, description=output, advance=advance, **options)
    console().result(made, f"{_totals(made)}, {counted(made.size, 'byte')}")


@command.command("update", cls=Verb)
@_options.inputs
@_place
@_workers
def update(inputs: tuple[str, ...], place: str | None, workers: int) -> None:
    """Write again the index files that do not fit their shards, and the entries of a description given as INPUT.

    Example: wds index update train.json
    """
    with console().progress("shards") as advance:
        made = tools.update_index(inputs, place=place, workers=workers, advance=advance)
    console().result(made, f"{_totals(made)}; {len(made.written):,} written again")


@command.command("info", cls=Verb)
@_options.inputs
@_place
def info(inputs: tuple[str, ...], place: str | None) -> None:
    """Totals, from index files or a description alone; the exit code is 1 if a shard has neither.

    Example: wds index info train.json
    """
    found = tools.index_info(inputs, place=place)
    if console().as_json:
        console().result(found)
    else:
        size = "" if found.size is None else f", {counted(found.size, 'byte')}"
        mean = found.samples / max(1, found.shards - len(found.unknown))
        name = "" if found.name is None else f"{found.name}: "
        echo(f"{name}{_totals(found)}, {mean:,.1f} per shard{size}")
    for url in found.unknown:
        console().warn(f"no index: {url}")
    click.get_current_context().exit(1 if found.unknown else 0)


@command.command("sample", cls=Verb)
@click.argument("number", type=int)
@_options.inputs
@_place
@click.option("-c", "--cat", metavar="FIELD", help="Write the bytes of this field and nothing else.")
@click.option("-w", "--width", type=_options.COUNT, default=250, show_default=True, help="Most characters per field.")
def sample(number: int, inputs: tuple[str, ...], place: str | None, cat: str | None, width: int) -> None:
    """Show the sample with a NUMBER, counted from 0 over all INPUTs, through the index.

    Example: wds index sample 17 train.json
    """
    found = tools.indexed_sample(inputs, number, place=place)
    if cat is not None:
        if cat not in found:
            raise click.UsageError(f"sample {number} has no field {cat!r}; it has {' '.join(map(str, found))}")
        with printing():
            sys.stdout.buffer.write(found[cat])
        return
    if console().as_json:
        console().result(found)
        return
    for name, value in found.items():
        text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
        line = f"{name}: {text if len(text) <= width else text[:width] + ' …'}"
        echo_line(redacted(line) if name == "__url__" else line)


def _totals(found: Any) -> str:
    return f"{counted(found.shards, 'shard')}, {counted(found.samples, 'sample')}"
