"""`wds check`."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import click

from webdataset import tools
from webdataset.describe import counted

from . import _options
from ._output import as_jsonable, console, echo, echo_line, verb

# Of each kind so many findings are printed for people; --json prints all.
_SHOWN = 5


@verb()
@_options.inputs
@click.option("-f", "--fields", help="Fields that every sample must have: 'jpg cls'.")
@click.option("--decode/--no-decode", default=True, show_default=True, help="Decode every field.")
@click.option("--sorted", "in_order", is_flag=True, help="Require sorted keys.")
@click.option("--hf", is_flag=True, help="Require what Hugging Face `datasets` requires.")
@click.option("--dali", is_flag=True, help="Require what NVIDIA DALI requires.")
@click.option("--gnu", is_flag=True, help="Require that GNU tar can extract the shards.")
@click.option("--windows", is_flag=True, help="Require names that Windows can create.")
@click.option("--across/--no-across", default=True, show_default=True, help="Compare keys across shards.")
@click.option("--index", help="Where index files are; by default beside the shards.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, show_default=True, help="How many processes.")
@click.option("--fix", is_flag=True, help="Write damaged shards again, to the folder given with -o.")
@click.option("-o", "--output", help="Where repaired shards go: a folder, or a pattern with {name} or {stem}.")
@_options.force
def command(inputs: tuple[str, ...], jobs: int, across: bool, fix: bool, output: str | None, **given: Any) -> None:
    """Report everything that is wrong with the shards of all INPUTs; the exit code is 1 if something is.

    INPUTs are shards, or a description in JSON, whose sizes, counts and MD5 sums are compared. With --fix, damaged
    shards are written again: what cannot be saved goes to NAME.quarantine.tar, and is listed.

    Example: wds check --fields 'cls txt' train-*.tar -j 2
    """
    if fix != (output is not None):
        raise click.UsageError("--fix and -o belong together: --fix -o repaired/")
    force, options = given.pop("force"), _parsed(**given)
    with console().progress("shards") as advance:
        report = tools.check(inputs, options, jobs=jobs, across=across, on_shard=lambda _: advance(1))
    repairs: list[tools.Repair] = []
    if fix and report.damaged:
        with console().progress("shards", len(report.damaged)) as advance:
            repairs = tools.repair(report.damaged, str(output), options, force=force, advance=advance)
    _show(report, repairs)
    click.get_current_context().exit(0 if report.ok or (fix and _all_repaired(report, repairs)) else 1)


def _parsed(
    *, fields: str | None, decode: bool, in_order: bool, index: str | None, **targets: bool
) -> tools.CheckOptions:
    return tools.CheckOptions(
        fields=None if fields is None else tuple(fields.replace(",", " ").split()),
        decode=decode,
        in_order=in_order,
        index=index,
        targets=frozenset(target for target in tools.Target if targets[target.value]),
    )


def _all_repaired(report: tools.CheckReport, repairs: list[tools.Repair]) -> bool:
    """Whether every finding was in a shard that is now repaired."""
    good = {repair.shard for repair in repairs if repair.output is not None and not repair.remaining}
    return all(finding.severity == "note" or finding.shard in good for finding in report.findings)


def _show(report: tools.CheckReport, repairs: list[tools.Repair]) -> None:
    out = console()
    if out.as_json:
        out.result({**as_jsonable(report), "ok": report.ok, "repairs": repairs})
        return
    _show_findings(report)
    for repair in repairs:
        for action in repair.actions:
            echo_line(f"{repair.shard}: {action}", data=False)
        where = (
            f"{counted(repair.saved, 'sample')} saved in {repair.output}" if repair.output else "nothing could be saved"
        )
        aside = f", {repair.aside} set aside" if repair.aside else ""
        more = f" ({repair.quarantine})" if repair.quarantine else ""
        echo_line(f"{repair.shard}: {where}{aside}{more}", data=False)
        for finding in repair.remaining:
            echo_line(f"still wrong: {finding}", data=False)
    words = [counted(len(report.of(severity)), severity) for severity in tools.Severity]
    hidden = " (-v shows them)" if report.of(tools.Severity.NOTE) and not out.verbose else ""
    out.say(
        f"{counted(report.shards, 'shard')}, {counted(report.samples, 'sample')}, {counted(report.size, 'byte')}: "
        f"{', '.join(words)}{hidden}"
    )


def _show_findings(report: tools.CheckReport) -> None:
    by_kind: dict[Any, list[tools.Finding]] = defaultdict(list)
    for finding in report.findings:
        by_kind[finding.severity, finding.kind].append(finding)
    order = ("error", "warning", "note")
    for (severity, kind), found in sorted(by_kind.items(), key=lambda item: order.index(item[0][0])):
        if severity == "note" and not console().verbose:
            continue
        for finding in found[:_SHOWN]:
            echo_line(finding, data=False)
        left = report.counts[kind] - len(found[:_SHOWN])
        more = f"… and {left:,} more; " if left > 0 else ""
        echo(f"  {more}{found[0].remedy}")
