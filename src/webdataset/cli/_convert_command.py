"""`wds convert`."""

from __future__ import annotations

import shlex
from typing import Any

import click

from . import _options
from ._output import console, verb


@verb()
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.argument("target", metavar="DST")
@click.option("--from", "source_format", metavar="FORMAT", help="Format of SRC; by default told by its suffix.")
@click.option("--to", "target_format", metavar="FORMAT", help="Format of DST; by default told by its suffix.")
@click.option("-m", "--mapping", metavar="A:B,...", help="SOURCE:FIELD pairs; by default a guess, which is printed.")
@click.option("-k", "--key", metavar="NAME", help="The field that becomes the key; by default a counter.")
@_options.limits
@_options.index
@_options.description
@_options.force
@_options.dry_run
@_options.engine
def command(sources: tuple[str, ...], target: str, **options: Any) -> None:
    """Convert a dataset from one format to another.

    Formats: tar, tfrecord, parquet, arrow, mds and beton both ways; imagefolder both ways; litdata, cifar, mnist, zip,
    npz and hdf5 to read.

    With %06d in DST, input files become output files by number, -j at a time; the same command continues where it was
    stopped. -n and -s write files of another size, one after the other.

    Example: wds convert 'train-{000..001}.tar' 'train-%06d.tfrecord'
    """
    from webdataset.interop import convert, suggest_mapping

    source = list(sources) if len(sources) > 1 else sources[0]
    formats = {"source_format": options["source_format"], "target_format": options["target_format"]}
    if options["mapping"] is None:
        options["mapping"] = suggest_mapping(source, target, **formats)
        console().say(f"mapping: --mapping {shlex.quote(str(options['mapping']))}")
    report = _options.run(convert, options, source, target, unit="files")
    _options.show_report(report, dry_run=options["dry_run"], mapping=str(report.mapping))
