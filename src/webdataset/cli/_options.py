"""Options that several verbs have, and how a report reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ._output import console

if TYPE_CHECKING:
    from webdataset.tools import Report

Decorator = Callable[[Any], Any]

inputs: Decorator = click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
output: Decorator = click.option("-o", "--output", required=True, help="Where to write; - is standard output.")
force: Decorator = click.option("--force", is_flag=True, help="Replace outputs that exist.")
index: Decorator = click.option("--index/--no-index", default=True, show_default=True, help="Write index files.")
seed: Decorator = click.option("--seed", type=int, default=0, show_default=True, help="Seed of everything random.")


def show_report(report: Report) -> None:
    """Print what was written; the exit code is 1 if something failed."""
    words = [f"{report.samples_out} samples", f"{report.bytes_out:,} bytes", f"{report.done} shards written"]
    if report.samples_in != report.samples_out:
        words.insert(0, f"{report.samples_in} samples read")
    if report.skipped:
        words.append(f"{report.skipped} finished before")
    console().result(report, ", ".join(words))
    for failure in report.failed:
        console().warn(f"failed: {failure}")
    if not report.complete:
        click.get_current_context().exit(1)
