"""Convert from one format to another: the same code for all formats."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from webdataset import stores
from webdataset.errors import SpecError
from webdataset.index import Description, ShardEntry
from webdataset.tools import (
    DEFAULTS,
    Options,
    Report,
    collect_failures,
    existing,
    refuse_description,
    refuse_existing,
    run_tasks,
    series_members,
    store_description,
)
from webdataset.writers import EarlierRun

from ._convert_files import Conversion, ConvertTask, stored_checksum, write_stream
from ._field_mapping import FieldMapping
from ._format_table import find_format
from ._record_format import Format, Part
from ._rolling_sink import RollingSink, is_series
from ._sample_of_record import find_mapping, listed_parts, schema_of
from ._tar_format import Tar

_MOST_SAMPLES = 100_000
_MOST_BYTES = 3e9


@dataclass(frozen=True, slots=True)
class Converted(Report):
    """The report of a conversion: that of any verb that writes shards, and the mapping.

    Attributes:
        mapping: which field came from which; `str(mapping)` can be given to another conversion.
    """

    mapping: FieldMapping = field(default_factory=lambda: FieldMapping(()))


def suggest_mapping(
    source: Any, target: str = "out.tar", *, source_format: Any = None, target_format: Any = None
) -> FieldMapping:
    """The mapping that `convert` uses when it is given none.

    >>> from webdataset.interop import write
    >>> write([{"image/height": 7}], "memory://docs/suggest.tfrecord")
    1
    >>> print(suggest_mapping("memory://docs/suggest.tfrecord"))
    image/height:image_height.cls
    """
    reader, writer = find_format(source_format, source), find_format(target_format, target)
    return find_mapping(reader, listed_parts(reader, source), None, None, by_extension=writer.by_extension)


def convert(
    source: Any,
    target: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    source_format: Any = None,
    target_format: Any = None,
    mapping: Any = None,
    key: str | None = None,
) -> Converted:
    """Convert a dataset from one format to another.

    >>> from webdataset.interop import write
    >>> write([{"label": 7}, {"label": 8}], "memory://docs/in.tfrecord")
    2
    >>> done = convert("memory://docs/in.tfrecord", "memory://docs/out-%03d.tar")
    >>> done.samples_out, done.outputs, str(done.mapping)
    (2, ('memory://docs/out-000.tar',), 'label:cls')

    With `%06d` in the target, several input files become as many output files, by number, `options.workers` at a time
    or on another engine. The result does not depend on that. Finished files are recorded in a ledger, so that the same
    call continues where an earlier one was stopped or killed. An input file without records gives no output file.

    With `options.count` or `options.size`, or with one input file, samples go into files of that size, one after
    another. Without `%06d` there is one output file or directory. Such a conversion begins again when it was stopped.

    A file appears under its name when it is complete.

    Args:
        source: paths or URLs as `WebDataset` takes them, or the directory of a dataset.
        target: a path or URL, with `%06d` for a series of files.
        options: how to write and run, as for every verb.
        source_format: the name of the format, or an object with options; None goes by the suffix.
        target_format: the same for the target.
        mapping: `"image/encoded:jpg,label:cls"`; None keeps all fields under names that are guessed from the first 100
            records. Fields that the mapping does not name are left out.
        key: the field of the records that becomes the key; by default their own `__key__`, else a counter.
    """
    name = stores.as_address(target)
    reader, writer = find_format(source_format, source), _writer(target_format, name, options)
    parts = listed_parts(reader, source)
    schema = schema_of(reader, parts[0])
    fields = find_mapping(reader, parts, mapping, key, by_extension=writer.by_extension, schema=schema)
    conversion = Conversion(reader, writer, fields, len(parts), schema, parts[0].url)
    limited = options.count is not None or options.size is not None
    if is_series(name) and len(parts) > 1 and not limited and not writer.directory:
        report = _by_number(conversion, parts, name, options)
    else:
        report = _stream(conversion, parts, name, options)
    return Converted(**{each.name: getattr(report, each.name) for each in dataclasses.fields(report)}, mapping=fields)


def _writer(target_format: Any, target: str, options: Options) -> Format:
    writer = find_format(target_format, target)
    if not writer.writes:
        raise SpecError(f"{writer.name} cannot be written", hint="choose another format for the target")
    if options.shards is not None:
        raise SpecError("the number of output files cannot be chosen", hint="limit their size: -n or -s")
    if isinstance(writer, Tar):
        return writer if isinstance(target_format, Tar) else dataclasses.replace(writer, index=options.index)
    if options.description is not None:
        raise SpecError(f"a description lists tar shards, not {writer.name}", hint="leave --description out")
    return writer


def _by_number(conversion: Conversion, parts: Sequence[Part], target: str, options: Options) -> Report:
    """Input files → output files of the same number, in parallel, resumable."""
    pairs = [(part.url, target % number) for number, part in enumerate(parts)]
    numbers = {url: number for number, (url, _) in enumerate(pairs)}
    if len(numbers) < len(pairs):
        raise SpecError("the same input file is given twice", hint="give every file once")
    earlier = EarlierRun(target, 0)
    refuse_existing(earlier.left_after(len(pairs)), force=options.force)
    if options.dry_run:
        return Report(outputs=tuple(output for _, output in pairs))

    def make_task(url: str, output: str) -> ConvertTask:
        return ConvertTask(conversion, numbers[url], parts[numbers[url]], output)

    job = f"convert {conversion.reader} {conversion.writer} {conversion.mapping}"
    report = run_tasks(pairs, make_task, options, job=job, pattern=target)
    earlier.refuse_or_remove(len(pairs), None, overwrite=options.force)
    return report


def _stream(conversion: Conversion, parts: Sequence[Part], target: str, options: Options) -> Report:
    """All samples, one file after the other."""
    if options.workers > 1 or options.engine not in {None, "local"}:
        raise SpecError(
            "one stream of samples cannot be written in parallel",
            hint="put %06d into the target, give several input files, and leave the limits out; or use -j 1",
        )
    first = target % 0 if is_series(target) else target
    made = f"{first.rstrip('/')}/index.json" if conversion.writer.directory else first
    series = series_members(target) if is_series(target) else []
    found = series or ([first] if existing([made]) else [])
    refuse_description(options.description, [first])
    refuse_existing([*found, *existing([options.description])], force=options.force)
    if options.dry_run:
        return Report(outputs=(target,))
    sink = RollingSink(
        conversion.writer, target, maxcount=options.count or _MOST_SAMPLES, maxsize=options.size or _MOST_BYTES
    )
    earlier = EarlierRun(target, 0) if is_series(target) else None
    with collect_failures() as failures:
        write_stream(conversion, parts, sink, options)
    if earlier is not None:
        earlier.refuse_or_remove(len(sink.files), None, overwrite=options.force)
    if options.description is not None:
        _describe(options.description, sink)
    return Report(
        samples_in=sink.total,
        samples_out=sink.total,
        bytes_out=sink.size,
        done=len(sink.files),
        failed=tuple(failures),
        outputs=tuple(sink.files),
    )


def _describe(description: str, sink: RollingSink) -> None:
    entries = []
    for url, count in zip(sink.files, sink.counts, strict=True):
        size, checksum = stored_checksum(url)
        entries.append(ShardEntry(url, count, size, checksum or None))
    store_description(Description(entries), description)
