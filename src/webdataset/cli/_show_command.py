"""`wds show`."""

from __future__ import annotations

import csv
import json
import sys

import click

from webdataset import tools
from webdataset.describe import counted
from webdataset.redact import printable, redacted

from . import _options
from ._output import console, echo, echo_json, echo_line, printing, verb
from ._text_graphics import half_blocks

_LONGEST = 2000


@verb()
@_options.inputs
@click.option("-n", "-c", "--count", type=click.IntRange(0), help="So many samples; 1 by default, all in a table.")
@click.option("-k", "--key", "keys", multiple=True, help="This sample, instead of the first.")
@click.option("-f", "--fields", help="Only these fields: 'jpg txt'; in a table 'a;b' is the first that is there.")
@_options.choice(
    "--format",
    "form",
    of="text tsv jsonl",
    help="text is for people; tsv and jsonl are tables with a row for each sample.",
)
@click.option("--header/--no-header", default=True, show_default=True, help="Begin a tsv table with the names.")
@click.option("--pictures/--no-pictures", default=None, help="Draw pictures; by default in a terminal.")
@click.option("-w", "--width", type=click.IntRange(8, 400), default=60, show_default=True, help="Width of pictures.")
def command(
    inputs: tuple[str, ...],
    count: int | None,
    keys: tuple[str, ...],
    fields: str | None,
    form: str,
    header: bool,
    pictures: bool | None,
    width: int,
) -> None:
    """Show samples of all INPUTs: fields, sizes, text, and pictures in colour.

    Example: wds show -f 'txt cls' train-000.tar
    """
    wanted = None if fields is None else tuple(fields.replace(",", " ").split())
    if form != "text":
        print_table(inputs, wanted, count, form, header=header)
        return
    draw = sys.stdout.isatty() if pictures is None else pictures
    print_samples(inputs, wanted, None if count == 0 else count or 1, keys=keys, draw=draw, width=width)


def print_samples(
    inputs: tuple[str, ...],
    fields: tuple[str, ...] | None,
    count: int | None,
    *,
    keys: tuple[str, ...] = (),
    draw: bool = False,
    width: int = 60,
) -> None:
    """Print samples in readable form, or as JSON with `--json`."""
    for shown in tools.show_samples(inputs, count=count, keys=keys, fields=fields, width=width):
        if console().as_json:
            shown_fields = [{"name": field.name, "size": field.size, "text": field.text} for field in shown.fields]
            echo_json({"key": shown.key, "shard": shown.shard, "fields": shown_fields})
        else:
            _print(shown, draw=draw)


def print_table(
    inputs: tuple[str, ...],
    fields: tuple[str, ...] | None,
    count: int | None,
    form: str,
    *,
    header: bool,
    key: bool = True,
) -> None:
    """Print a row for each sample, as TSV, as lines of JSON, or as one list in JSON."""
    writer = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
    # A file gets the text as it is.
    shown = (lambda cells: [printable(str(cell)) for cell in cells]) if sys.stdout.isatty() else list
    rows = tools.field_rows(inputs, fields, count=count)
    if form == "json":
        echo("[", nl=False)
    for number, row in enumerate(rows):
        if not key:
            del row["__key__"]
        if form == "json":
            echo(f"{',' * bool(number)}{json.dumps(row)}", nl=False, data=True)
            continue
        if form == "jsonl":
            echo(json.dumps(row), data=True)
            continue
        cells = [value if isinstance(value, str | int) else json.dumps(value) for value in row.values()]
        with printing():
            if header and not number:
                writer.writerow(shown(row))
            writer.writerow(shown(cells))
    if form == "json":
        echo("]")


def _print(shown: tools.ShownSample, *, draw: bool) -> None:
    echo_line(f"{shown.key}  ({redacted(shown.shard)})")
    for field in shown.fields:
        echo_line(f"  {field.name}  {counted(field.size, 'byte')}  {_one_line(field)}")
        if draw and field.picture is not None:
            with printing():
                click.echo(half_blocks(field.picture), color=True)


def _one_line(field: tools.ShownField) -> str:
    text = " ".join(field.text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
