"""`wds proc`."""

from __future__ import annotations

from typing import Any

import click

from webdataset import tools

from . import _options
from ._output import verb


@verb()
@_options.inputs
@_options.writing
@_options.limits
@click.option("-c", "--command", "shell", metavar="COMMAND", help="A shell command; fields are files sample.FIELD.")
@click.option("--python", "function", metavar="MODULE:FUNCTION", help="A function from a sample to a sample.")
@click.option("--per-shard", is_flag=True, help="Run the command once for each shard, with all its files.")
@_options.choice(
    "--failed",
    of="stop skip keep",
    help="A sample that fails: stop, skip it, or keep it as it is; the last two are reported.",
)
@click.option("--timeout", type=float, help="Seconds for each command.")
@click.option("--tmpdir", "folder", help="Where temporary folders are made.")
@_options.engine
def command(inputs: tuple[str, ...], output: str, *, shell: str | None, **options: Any) -> None:
    """Process every sample by a shell command or a Python function.

    The command runs in a temporary folder with the fields as sample.FIELD and the key as sample.__key__; afterwards the
    files sample.* are the new sample.

    Example: wds proc -c 'sed -i s/a/b/ sample.txt' -o changed/ train-*.tar -j 2
    """
    _options.run_and_show(tools.proc, {**options, "command": shell}, inputs, output)
