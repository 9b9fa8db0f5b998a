"""The commands of `tarproc`, with the flags that this package supports: first those that write shards."""

from __future__ import annotations

import sys
from typing import Any

import click

from webdataset import tools

from . import _options
from ._first_command import write_first
from ._output import verb
from ._show_command import print_samples, print_table

_input = click.argument("source", default="-", metavar="[INPUT]")
_output = click.option("-o", "--output", default="-", show_default=True)


@verb(name="tarcats")
@click.argument("inputs", nargs=-1, metavar="[INPUT...]")
@_output
@click.option("-T", "--filelist", help="A file that lists inputs, one per line.")
@click.option("-b", "--braceexpand", is_flag=True, help="Accepted: braces are always expanded.")
@click.option("-s", "--skip", type=click.IntRange(0), default=0, help="Leave out the first samples.")
@click.option("-c", "--count", type=click.IntRange(0), help="Number of the last sample, the skipped ones included.")
@click.option("--shuffle", type=click.IntRange(0), default=0, help="Shuffle in a buffer of so many samples.")
def tarcats(
    inputs: tuple[str, ...], output: str, filelist: str | None, skip: int, count: int | None, shuffle: int, **_: Any
) -> None:
    """Concatenate shards: `wds cat`."""
    urls = [*inputs, *(tools.read_shard_list(filelist) if filelist else ())] or ["-"]
    stretch = f"{skip}:{'' if count is None else count}" if skip or count is not None else None
    _options.run_and_show(tools.cat, {"shuffle": shuffle, "slice": stretch}, urls, output)


@verb(name="tarsplit")
@_input
@click.option("-n", "--num-samples", type=_options.COUNT, default=100_000, show_default=True)
@click.option("-s", "--max-size", type=_options.Bytes(), default="1e9", show_default=True)
@click.option("-o", "--output", default="temp", show_default=True, help="A prefix, or a pattern with {shard:06d}.")
@click.option("-z", "--compress", is_flag=True, help="Write .tgz files.")
def tarsplit(source: str, num_samples: int, max_size: int, output: str, compress: bool) -> None:
    """Split a stream of samples into shards: `wds split`."""
    pattern = output.replace("%", "%%").replace("{shard:06d}", "%06d")
    if pattern == output.replace("%", "%%"):
        pattern += "-%06d.tgz" if compress else "-%06d.tar"
    options = {"count": num_samples, "size": max_size, "index": not compress}
    _options.run_and_show(tools.split, options, (source,), pattern)


@verb(name="tarsort")
@_input
@_output
@click.option("-s", "--sortkey", default="__key__", show_default=True, help="The field to sort by.")
@click.option("-S", "--sorttype", type=click.Choice(["none", "int", "float", "shuffle"]), default="none")
@click.option("-t", "--tempfile", help="Accepted: temporary files have names of their own.")
def tarsort(source: str, output: str, sortkey: str, sorttype: str, **_: Any) -> None:
    """Sort the samples of a stream by a field: `wds sort`, `wds shuffle`."""
    if sorttype == "shuffle":
        _options.run_and_show(tools.shuffle, {}, (source,), output)
        return
    _options.run_and_show(tools.sort, {"by": sort_expression(sortkey, sorttype)}, (source,), output)


def sort_expression(field: str, kind: str = "none") -> str:
    """The expression that sorts by a field of a kind.

    >>> sort_expression("__key__"), sort_expression("cls", "int")
    ('key', 'int(field("cls"))')
    """
    value = "key" if field == "__key__" else f'field("{field}")'
    return value if kind == "none" else f"{kind}({value})"


@verb(name="tarproc")
@_input
@_output
@click.option("-c", "--command", "shell", required=True, help="A shell command; fields are files sample.FIELD.")
@click.option("-p", "--parallel", type=click.IntRange(0), default=0, help="Commands at a time; the order stays.")
@click.option(
    "-e", "--error-handling", type=click.Choice(["ignore", "skip", "abort"]), default="skip", show_default=True
)
def tarproc(source: str, output: str, shell: str, parallel: int, error_handling: str) -> None:
    """Run a command on every sample: `wds proc`."""
    policy = {"ignore": "keep", "skip": "skip", "abort": "stop"}[error_handling]
    options = {"workers": max(1, parallel), "command": shell, "failed": policy}
    _options.run_and_show(tools.proc, options, (source,), output)


@verb(name="tarmix")
@click.argument("spec", metavar="YAML")
@_output
@click.option("-c", "--count", type=_options.COUNT, help="End after so many samples.")
def tarmix(spec: str, output: str, count: int | None) -> None:
    """Mix datasets by the weights of a YAML file: `wds mix --random`."""
    _options.run_and_show(tools.mix, {"random": True, "samples": count}, tools.read_mix_sources(spec), output)


@verb(name="tsv2tar")
@click.argument("plan")
@_output
@click.option("-k", "--key", default="{record:09d}", show_default=True, help="Keys of rows without a __key__ column.")
@click.option("-f", "--delim", help="The separator; a comma for .csv, else a tab.")
@click.option("-C", "--dir", "folder", help="What file names are relative to.")
def tsv2tar(plan: str, output: str, key: str, delim: str | None, folder: str | None) -> None:
    """Make a shard from a table whose @columns hold file names: `wds create`."""
    comma = delim == "," if delim else plan.endswith(".csv")
    making = tools.Making("csv" if comma else "tsv", key=key, folder=folder)
    _options.run_and_show(tools.create, {"making": making}, (plan,), output)


@verb(name="lines2tar")
@click.option("-k", "--keys", default="txt", show_default=True, help="The fields of a line.")
@click.option("-s", "--separator", type=click.Choice(["\t", ","]), default="\t", help="Between fields.")
@click.option("--keyformat", default="{:09d}", show_default=True)
@_output
def lines2tar(keys: str, separator: str, keyformat: str, output: str) -> None:
    """Make a sample of every line of standard input: `wds create --columns`."""
    key = keyformat.replace("{:", "{record:").replace("{}", "{record}")
    making = tools.Making("csv" if separator == "," else "tsv", key=key, columns=tuple(keys.split()))
    _options.run_and_show(tools.create, {"making": making}, ("-",), output)


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
