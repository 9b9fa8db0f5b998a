"""The commands of `tarproc` that mean the same here, with their flags: `tarshow`, `tarfirst`, `tar2tsv`, `tar2json`."""

from __future__ import annotations

import sys

import click

from ._first_command import write_first
from ._output import verb
from ._show_command import print_samples, print_table

_input = click.argument("source", default="-", metavar="[INPUT]")


@verb(name="tarshow")
@_input
@click.option("-f", "--field", "fields", help="Only these fields: 'png txt'.")
@click.option("-c", "--count", type=click.IntRange(0), default=0, help="So many samples; all by default.")
def tarshow(source: str, fields: str | None, count: int) -> None:
    """Show the fields of samples: `wds show`."""
    wanted = None if fields is None else tuple(fields.replace(";", " ").split())
    print_samples((source,), wanted, count or None, draw=sys.stdout.isatty())


@verb(name="tarfirst")
@_input
@click.option("-f", "--field", "fields", help="Fields to look for, the best first: 'jpg;png'; by default pictures.")
@click.option("-S", "--select", "where", help="Only samples for which this expression is true: 'cls > 3'.")
def tarfirst(source: str, fields: str | None, where: str | None) -> None:
    """Write the bytes of a field of the first sample that has it: `wds first`."""
    write_first((source,), fields, where, "-")


@verb(name="tar2tsv")
@_input
@click.option("-f", "--fields", required=True, help="Fields: 'cls txt'; 'a;b' is the first of them that is there.")
@click.option("-c", "--count", type=click.IntRange(0), help="At most so many samples.")
@click.option("--nokey", is_flag=True, help="Leave out the keys.")
@click.option("--noheader", is_flag=True, help="Leave out the names.")
def tar2tsv(source: str, fields: str, count: int | None, nokey: bool, noheader: bool) -> None:
    """Print fields of samples as a table separated by tabs: `wds show --format tsv`."""
    print_table((source,), tuple(fields.split()), count, "tsv", header=not noheader, key=not nokey)


@verb(name="tar2json")
@_input
@click.option("-k", "--fields", help="Fields: 'cls txt'; by default all.")
@click.option(
    "-f", "--format", "form", type=click.Choice(["jsonlines", "json"]), default="jsonlines", help="Lines, or a list."
)
@click.option("--nokey", is_flag=True, help="Leave out the keys.")
def tar2json(source: str, fields: str | None, form: str, nokey: bool) -> None:
    """Print fields of samples as JSON, a line for each sample: `wds show --format jsonl`."""
    wanted = None if fields is None else tuple(fields.split())
    print_table((source,), wanted, None, "json" if form == "json" else "jsonl", header=False, key=not nokey)
