"""`tarp`: its five commands, with the flags that this package supports."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from webdataset import tools

from . import _options
from ._output import Group, Verb
from ._split_command import run_after
from ._tarproc_commands import sort_expression

_output = click.option("-o", "--output", required=True, help="Where to write; - is standard output.")
_fields = click.option("-f", "--field", "fields", help="Fields to keep: 'jpg,png cls', 'new:old'.")
_slice = click.option("--slice", help="A slice of the samples, lo:hi:step, as Python slices a list.")
_rekey = click.option("-R", "--rekey", type=click.Choice(["#"]), help="Number the keys.")


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def tarp() -> None:
    """The commands of tarp; `wds` has the same verbs with more options."""


@tarp.command(cls=Verb)
@click.argument("recipe")
@_output
def create(recipe: str, output: str) -> None:
    """Make an archive from a recipe: `wds create`."""
    _options.run_and_show(tools.create, {"making": tools.Making("recipe")}, (recipe,), output)


@tarp.command(cls=Verb)
@_options.inputs
@_output
@_fields
@_slice
@_rekey
@click.option("-s", "--shuffle", type=click.IntRange(0), default=0, help="Shuffle in a buffer of so many samples.")
@click.option("-l", "--load", is_flag=True, help="The input is a text file that lists inputs.")
def cat(inputs: tuple[str, ...], output: str, *, rekey: str | None, load: bool, **options: Any) -> None:
    """Concatenate shards: `wds cat`."""
    urls = [url for name in inputs for url in tools.read_shard_list(name)] if load else inputs
    _options.run_and_show(tools.cat, {**options, "rekey": "{:09d}" if rekey else None}, urls, output)


@tarp.command(cls=Verb)
@_options.inputs
@click.option("-o", "--output", default="split-%06d.tar", show_default=True)
@click.option("-c", "--count", type=click.IntRange(2), default=1_000_000, show_default=True)
@click.option("-s", "--size", type=_options.Bytes(), default="1e9", show_default=True)
@click.option("-p", "--post", metavar="COMMAND", help="Run after each shard; every %s is its name.")
def split(inputs: tuple[str, ...], output: str, *, post: str | None, **options: Any) -> None:
    """Split samples into shards: `wds split`."""
    _options.run_and_show(tools.split, {**options, "post": partial(run_after, post) if post else None}, inputs, output)


@tarp.command(cls=Verb)
@_options.inputs
@_output
@click.option("-c", "--command", "shell", required=True, help="A shell command; fields are files sample.FIELD.")
def proc(inputs: tuple[str, ...], output: str, shell: str) -> None:
    """Run a command on every sample: `wds proc`. A command that fails stops it."""
    _options.run_and_show(tools.proc, {"command": shell}, inputs, output)


@tarp.command(cls=Verb)
@_options.inputs
@_output
@click.option("-s", "--sortfield", default="__random__", show_default=True, help="A field, or __random__ to shuffle.")
@click.option("--tmpdir", "folder", help="Where temporary files go.")
def sort(inputs: tuple[str, ...], output: str, sortfield: str, folder: str | None) -> None:
    """Sort or shuffle samples: `wds sort`, `wds shuffle`."""
    if sortfield == "__random__":
        _options.run_and_show(tools.shuffle, {"folder": folder}, inputs, output)
    else:
        _options.run_and_show(tools.sort, {"by": sort_expression(sortfield), "folder": folder}, inputs, output)
