"""`wds convert`."""

from __future__ import annotations

from typing import Any

import click

from webdataset.describe import counted

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
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@click.option("--resume", is_flag=True, help="Skip input files whose output exists.")
@click.option("--dry-run", is_flag=True, help="Show the mapping and the number of input files, write nothing.")
@click.option("-j", "--jobs", "workers", type=_options.COUNT, default=1, show_default=True, help="Worker processes.")
@click.option(
    "--engine",
    type=click.Choice(["local", "dask", "ray"]),
    default="local",
    show_default=True,
    help="Where input files are converted.",
)
@click.option("--address", help="Address of a running Dask scheduler or Ray cluster.")
def command(sources: tuple[str, ...], target: str, **options: Any) -> None:
    """Convert a dataset from one format to another.

    Formats: tar, tfrecord, parquet, arrow, mds and beton both ways; imagefolder both ways; litdata, cifar, mnist, zip,
    npz and hdf5 to read.

    With %06d in DST, input files become output files by number, -j at a time; -n and -s cut files of another size.

    Example: wds convert 'train-{000..001}.tar' 'train-%06d.tfrecord'
    """
    from webdataset.interop import suggest_mapping

    source = list(sources) if len(sources) > 1 else sources[0]
    formats = {"source_format": options.pop("source_format"), "target_format": options.pop("target_format")}
    mapping = options.pop("mapping")
    if mapping is None:
        mapping = suggest_mapping(source, target, **formats)
        console().say(f"mapping: --mapping '{mapping}'")
    if options.pop("dry_run"):
        return
    done = _convert(source, target, formats, mapping, **options)
    words = [counted(done.samples, "sample"), f"{counted(len(done.files), 'file')} written"]
    if done.skipped:
        words.append(f"{counted(len(done.skipped), 'file')} finished before")
    result = {"samples": done.samples, "files": done.files, "skipped": done.skipped, "mapping": str(done.mapping)}
    console().result(result, ", ".join(words))


def _convert(
    source: Any,
    target: str,
    formats: dict[str, Any],
    mapping: Any,
    *,
    key: str | None,
    count: int | None,
    size: int | None,
    force: bool,
    resume: bool,
    workers: int,
    engine: str,
    address: str | None,
) -> Any:
    from webdataset.interop import convert
    from webdataset.tools import open_engine

    existing = "skip" if resume else "replace" if force else "refuse"
    limits = {"maxcount": count, "maxsize": size, "existing": existing}
    with console().progress("files") as advance:
        run = {**formats, **limits, "mapping": mapping, "key": key, "progress": lambda _written: advance(1)}
        if workers == 1 and engine == "local":
            return convert(source, target, **run)
        with open_engine(engine, workers, address) as executor:
            return convert(source, target, executor=executor, **run)
