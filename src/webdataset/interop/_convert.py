"""From one format to another: one loop for all of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import as_completed
from dataclasses import dataclass
from typing import Any, Protocol

from webdataset import stores
from webdataset.errors import ShardNotFound, SpecError, StoreError, Where

from ._field_mapping import KEY, FieldMapping
from ._format_table import find_format
from ._record_format import Format, Part, Schema
from ._rolling_sink import RollingSink, is_series
from ._sample_of_record import check_schema, counter_key, find_mapping, listed_parts, sample_of, schema_of

EXISTING = ("replace", "refuse", "skip")


class Submits(Protocol):
    """Anything with the `submit` of `concurrent.futures`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Begin `fn(*args)` and return its future."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """What became of some input files."""

    samples: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Converted:
    """What a conversion did.

    Attributes:
        samples: how many were written this time.
        files: the files that were written, in order.
        skipped: the files that were there already (`resume=True`).
        mapping: which field came from which; `str(mapping)` can be given to another conversion.
    """

    samples: int
    files: tuple[str, ...]
    skipped: tuple[str, ...]
    mapping: FieldMapping


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
    target: str,
    *,
    source_format: Any = None,
    target_format: Any = None,
    mapping: Any = None,
    key: str | None = None,
    maxcount: float | None = None,
    maxsize: float | None = None,
    executor: Submits | None = None,
    existing: str = "replace",
    progress: Callable[[Written], None] | None = None,
) -> Converted:
    """Convert a dataset from one format to another.

    >>> from webdataset.interop import write
    >>> write([{"label": 7}, {"label": 8}], "memory://docs/in.tfrecord")
    2
    >>> done = convert("memory://docs/in.tfrecord", "memory://docs/out-%03d.tar")
    >>> done.samples, done.files, str(done.mapping)
    (2, ('memory://docs/out-000.tar',), 'label:cls')

    With `%06d` in the target, several input files become as many output files, by number, and `executor` converts them
    side by side; the result does not depend on how many at once. With `maxcount` or `maxsize`, or with one input file,
    samples go into files of that size, one after another. Without `%06d` there is one output file or directory.

    A file appears under its name when it is complete. An error ends the conversion; files that are complete stay, and
    `existing="skip"` goes on after them.

    Args:
        source: paths or URLs as `WebDataset` takes them, or the directory of a dataset.
        target: a path or URL, with `%06d` for a series of files.
        source_format: the name of the format, or an object with options; None goes by the suffix.
        target_format: the same for the target.
        mapping: `"image/encoded:jpg,label:cls"`; None keeps all fields under names that are guessed from the first 100
            records. Fields that the mapping does not name are left out.
        key: the field of the records that becomes the key; by default their own `__key__`, else a counter.
        maxcount: most samples in a file.
        maxsize: a file is full when it has at least so many bytes.
        executor: anything with the `submit` of `concurrent.futures`: local processes, Dask, Ray, …
        existing: what to do with output files that are there already: "replace" them, "refuse" to begin, or "skip"
            their input files (only where input files become output files by number).
        progress: called after each input file.
    """
    reader, writer = find_format(source_format, source), find_format(target_format, target)
    if existing not in EXISTING:
        raise SpecError(f"existing={existing!r} is not known", hint=f"take one of {', '.join(EXISTING)}")
    if not writer.writes:
        raise SpecError(f"{writer.name} cannot be written", hint="choose another format for the target")
    parts = listed_parts(reader, source)
    fields = find_mapping(reader, parts, mapping, key, by_extension=writer.by_extension)
    job = _Job(reader, writer, target, fields, len(parts), schema_of(reader, parts[0]), parts[0].url)
    by_number = is_series(target) and len(parts) > 1 and maxcount is None and maxsize is None and not writer.directory
    if existing == "refuse":
        _refuse_existing(target, len(parts) if by_number else 1, directory=writer.directory)
    if by_number:
        return _each(job, parts, executor, progress, resume=existing == "skip")
    if existing == "skip":
        raise SpecError(
            "only a conversion from several input files to files by number can go on where it was",
            hint="put %06d into the target and leave the limits out, or begin again",
        )
    limits = {"maxcount": maxcount or 100000, "maxsize": maxsize or 3e9}
    written = _write(job, target, list(enumerate(parts)), limits, progress)
    return Converted(written.samples, written.files, (), fields)


@dataclass(frozen=True, slots=True)
class _Job:
    """What every input file needs to know; it goes to worker processes."""

    reader: Format
    writer: Format
    target: str
    mapping: FieldMapping
    parts: int
    schema: Schema | None
    first: str


def _each(
    job: _Job,
    parts: list[Part],
    executor: Submits | None,
    progress: Callable[[Written], None] | None,
    *,
    resume: bool,
) -> Converted:
    """Input files → output files of the same number."""
    numbered = list(enumerate(parts))
    targets = [job.target % number for number, _ in numbered]
    skipped = tuple(target for target in targets if resume and _exists(target))
    todo = [item for item, target in zip(numbered, targets, strict=True) if target not in set(skipped)]
    done = []
    for written in _run(job, todo, executor):
        done.append(written)
        if progress is not None:
            progress(written)
    files = {file for written in done for file in written.files}  # an input file without records gives none
    ordered = tuple(target for target in targets if target in files)
    return Converted(sum(written.samples for written in done), ordered, skipped, job.mapping)


def _run(job: _Job, todo: list[tuple[int, Part]], executor: Submits | None) -> Any:
    if executor is None:
        yield from (_write_one(job, *item) for item in todo)
        return
    futures = [executor.submit(_write_one, job, *item) for item in todo]
    try:
        yield from (future.result() for future in as_completed(futures))
    finally:
        for future in futures:
            future.cancel()


def _write_one(job: _Job, number: int, part: Part) -> Written:
    return _write(job, job.target % number, [(number, part)], {}, None)


def _write(
    job: _Job,
    target: str,
    parts: list[tuple[int, Part]],
    limits: dict[str, float],
    progress: Callable[[Written], None] | None,
) -> Written:
    decode = job.reader.by_extension and not job.writer.by_extension
    keyed = job.writer.by_extension or any(pair.field == KEY for pair in job.mapping.pairs)
    with RollingSink(job.writer, target, **limits) as sink:
        for index, part in parts:
            before = sink.total
            with job.reader.open(part) as file:
                check_schema(file.schema, job.schema, part.url, job.first)
                for number, record in enumerate(file.records()):
                    key = counter_key(index, number, job.parts)
                    sample = sample_of(job.mapping, record, key, job.reader, part.url, number, decode=decode)
                    if not keyed:
                        del sample[KEY]
                    sink.write(sample)
            if progress is not None:
                progress(Written(sink.total - before, tuple(sink.files)))
    return Written(sink.total, tuple(sink.files))


def _refuse_existing(target: str, count: int, *, directory: bool) -> None:
    names = [target % number for number in range(count)] if is_series(target) else [target]
    for name in names:
        if _exists(f"{name.rstrip('/')}/index.json" if directory else name):
            raise StoreError("the output exists already", Where(shard=name), hint="replace it, or name another")


def _exists(url: str) -> bool:
    try:
        stores.stat(url)
    except ShardNotFound:
        return False
    return True
