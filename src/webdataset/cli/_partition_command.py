"""`wds partition`."""

from __future__ import annotations

from typing import Any

import click

from webdataset import tools
from webdataset.describe import counted

from . import _options
from ._output import console, verb


@verb()
@_options.inputs
@_options.writing
@_options.limits
@_options.parts
@_options.seed
def command(
    inputs: tuple[str, ...],
    output: str,
    shares: tuple[str, ...],
    lists: dict[str, str],
    where: dict[str, str],
    **options: Any,
) -> None:
    """Divide a dataset into parts, in one pass. Lists come first, then expressions, then random shares.

    A random share is decided by a hash of seed and key: it is the same in every run, and adding samples moves no other.

    Example: wds partition -p train=0.9 -p val=0.1 -o '{part}-%06d.tar' all.tar
    """
    parts = tools.Parts(tools.read_lists(lists), where, tools.parse_shares(shares), options["seed"])
    reports = _options.run(tools.partition, options, inputs, output, parts)
    samples = ", ".join(f"{name}: {counted(report.samples_out, 'sample')}" for name, report in reports.items())
    console().result(reports, samples)
    if not all(report.complete for report in reports.values()):
        click.get_current_context().exit(1)
