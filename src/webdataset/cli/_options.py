"""Options that several verbs have, and the text of a report."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import click

from webdataset import tools
from webdataset.describe import counted

from ._output import as_jsonable, console

Decorator = Callable[[Any], Any]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


class Bytes(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer versions only
    """A number of bytes: 1000000, 1e6, 1M, 1MB, 1MiB.

    >>> Bytes().convert("1.5GB", None, None)
    1500000000
    """

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?)b?", str(value).strip().lower())
        try:
            if found is None:
                raise ValueError(value)
            number = int(float(found[1]) * _UNITS[found[2]])
        except (ValueError, KeyError):
            self.fail(f"{value!r} is not a number of bytes; write 1e9, 500MB or 2GiB", param, ctx)
        if number < 1:
            self.fail(f"{value!r} is less than one byte", param, ctx)
        return number


def _all(*decorators: Decorator) -> Decorator:
    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def order(text: str) -> str | int:
    """A value for `WebDataset(order=...)`: a word, which the dataset checks, or how many shards are mixed at a time.

    >>> order("8"), order("random")
    (8, 'random')
    """
    return int(text) if text.isdigit() else text


def choice(*names: str, of: str, help: str) -> Decorator:  # noqa: A002 - as click calls it
    """An option whose value is one of some words; the first is the default."""
    words = of.split()
    return click.option(*names, type=click.Choice(words), default=words[0], show_default=True, help=help)


COUNT = click.IntRange(min=1)

inputs: Decorator = click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
output: Decorator = click.option(
    "-o",
    "--output",
    required=True,
    help="Where to write: one archive (- is standard output), numbered shards 'out-%06d.tar', or one output for each"
    " input: 'folder/' or a template with {name} or {stem}.",
)
force: Decorator = click.option("--force", is_flag=True, help="Replace outputs that exist.")
seed: Decorator = click.option("--seed", type=int, default=0, show_default=True, help="Seed of everything random.")


def pairs(_ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:
    """Parse words such as NAME=VALUE to a dict; a callback for options."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals or not value:
            raise click.BadParameter(f"expected NAME=VALUE, got {word!r}", param=param)
        found[name] = value
    return found


parts: Decorator = _all(
    click.option("-p", "--part", "shares", multiple=True, metavar="NAME=SHARE", help="A random share: train=0.9."),
    click.option("--list", "lists", multiple=True, callback=pairs, metavar="NAME=FILE", help="The keys in a file."),
    click.option(
        "--where", multiple=True, callback=pairs, metavar="NAME=EXPR", help="Samples for which an expression is true."
    ),
)
index: Decorator = click.option(
    "--index/--no-index", default=True, show_default=True, help="Write an index beside each shard."
)
description: Decorator = click.option(
    "--description", metavar="FILE.json", help="Write a description of all shards: counts, sizes, checksums."
)
dry_run: Decorator = click.option("--dry-run", is_flag=True, help="Show the outputs, write nothing.")

writing: Decorator = _all(output, index, description, force, dry_run)
limits: Decorator = _all(
    click.option("-n", "--count", type=COUNT, help="Most samples in a numbered shard."),
    click.option("-s", "--size", type=Bytes(), help="Bytes in a numbered shard, such as 500MB."),
)
sizes: Decorator = _all(
    limits, click.option("--shards", type=COUNT, help="Number of shards, with equally many samples each.")
)
engine: Decorator = _all(
    click.option("-j", "--jobs", "workers", type=COUNT, default=1, show_default=True, help="Worker processes."),
    choice("--engine", of="local dask ray", help="Where shards are processed."),
    click.option("--address", help="Address of a running Dask scheduler or Ray cluster."),
    choice(
        "--errors",
        of="stop skip quarantine",
        help="What to do with a shard that fails: stop; skip it, and try again in the next run; or quarantine it, and"
        " leave it out of the next run.",
    ),
    click.option("--retry", is_flag=True, help="Try quarantined shards again."),
    click.option(
        "--ledger", metavar="FILE", help="The file that notes finished shards; by default beside the outputs."
    ),
)


def write_bytes(data: bytes, output: str, *, force: bool) -> None:
    """Store bytes at an address, as the whole result of a verb."""
    from webdataset import stores

    tools.refuse_existing(tools.existing([output]), force=force)
    stores.write_bytes(output, data)


def run(tool: Callable[..., Any], given: dict[str, Any], *arguments: Any, unit: str = "samples") -> Any:
    """Call a tool with the options that a user gave, under a progress bar."""
    names = {field.name for field in dataclasses.fields(tools.Options)}
    shared = {name: given[name] for name in given if name in names}
    rest = {name: value for name, value in given.items() if name not in names}
    with console().progress(unit) as advance:
        return tool(*arguments, tools.Options(advance=advance, **shared), **rest)


def run_and_show(tool: Callable[..., tools.Report], given: dict[str, Any], inputs: Any, output: str) -> None:
    """Run a tool with inputs and an output under a progress bar, and print its report."""
    per_shard = output.endswith("/") or "{name}" in output or "{stem}" in output
    show_report(
        run(tool, given, inputs, output, unit="shards" if per_shard else "samples"), dry_run=given.get("dry_run")
    )


def show_report(report: tools.Report, *, dry_run: bool | None = False, **more: Any) -> None:
    """Print what was written, as JSON with `more` beside it; the exit code is 1 if something failed."""
    value = {**as_jsonable(report), **more}
    if dry_run:
        console().result(value, "\n".join(["would write:", *report.outputs]))
        return
    words = [
        counted(report.samples_out, "sample"),
        counted(report.bytes_out, "byte"),
        f"{counted(report.done, 'shard')} written",
    ]
    if report.samples_in not in {0, report.samples_out}:
        words.insert(0, f"{counted(report.samples_in, 'sample')} read")
    if report.skipped:
        words.append(f"{counted(report.skipped, 'shard')} finished before")
    console().result(value, ", ".join(words))
    for note in report.notes:
        console().say(f"note: {note}")
    for failure in report.failed:
        console().warn(f"failed: {failure}")
    if not report.complete:
        click.get_current_context().exit(1)
