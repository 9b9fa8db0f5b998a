"""`wds create`."""

from __future__ import annotations

from typing import Any

import click

from webdataset import tools

from . import _options
from ._output import verb

FORMATS = ["recipe", "tsv", "csv", "jsonl", "parquet", "tree", "imagefolder", "zip", "tar"]


@verb()
@_options.inputs
@_options.writing
@_options.sizes
@click.option("--format", "format_", type=click.Choice(FORMATS), help="What the INPUTs are; by default by their names.")
@click.option("--shuffle", is_flag=True, help="Write the samples in a random order, decided by the seed.")
@_options.seed
@_options.parts
@_options.choice(
    "--missing",
    of="error skip",
    help="A file that is not there: an error before anything is written, or leave its sample out and report it.",
)
@click.option("-k", "--key", default="{record:09d}", show_default=True, help="Keys of rows without a __key__ column.")
@click.option("-C", "--dir", "folder", help="What relative paths in recipes and tables are relative to.")
@click.option("--columns", help="Columns of a table without a header: 'txt cls'.")
@click.option("--separator", help="Between name and source in a recipe; by default blanks.")
def command(
    inputs: tuple[str, ...],
    output: str,
    format_: str | None,
    shares: tuple[str, ...],
    lists: dict[str, str],
    where: dict[str, str],
    columns: str | None,
    **options: Any,
) -> None:
    """Make a dataset out of recipes, tables, folders, zip or tar archives.

    A recipe has one file per line: its name in the archive and its source (a path, a URL, text:..., or pipe:...). A
    table has one sample per row; a column @jpg holds file names. In a folder, files with the same name up to the first
    dot are one sample; --format imagefolder adds the number of the class folder as cls and writes classes.json.

    Example: wds create --format imagefolder --shuffle -n 1000 -o 'train-%06d.tar' images/
    """
    parts = None
    if shares or lists or where:
        parts = tools.Parts(tools.read_lists(lists), where, tools.parse_shares(shares), options["seed"])
    names = ("shuffle", "missing", "key", "folder", "separator")
    words = tuple(columns.split()) if columns else None
    making = tools.Making(format_, parts=parts, columns=words, **{name: options.pop(name) for name in names})
    _options.run_and_show(tools.create, {**options, "making": making}, inputs, output)
