"""A stream of samples → one archive or a series of archives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Self

from webdataset.errors import SpecError
from webdataset.index import Description
from webdataset.writers import Record, ShardWriter, TarWriter

from ._output_target import (
    OneArchive,
    Stream,
    is_stream,
    make_folder,
    refuse_outputs,
    store_description,
    without_suffix,
)
from ._read_inputs import Sample
from ._report import Report
from ._verb_options import Options, advancing

DEFAULT_COUNT = 100_000
DEFAULT_SIZE = 1_000_000_000


def write_samples(
    samples: Iterable[Sample], target: Stream, options: Options, counts: Sequence[int] | None = None
) -> Report:
    """Write samples, publish each archive when it is complete, and count.

    >>> write_samples([{"__key__": "a", "txt": b"hello"}], OneArchive("memory://doc-tools/a.tar"), Options())
    Report(samples_in=0, samples_out=1, bytes_out=5, done=1, ... outputs=('memory://doc-tools/a.tar',), notes=())

    Args:
        samples: samples of bytes; with `options.dry_run` none is taken.
        target: where they go.
        options: how to write.
        counts: the number of samples of each shard of a series, in place of the limits of the options.
    """
    one = isinstance(target, OneArchive)
    if one and (options.count or options.size or counts):
        raise SpecError(
            f"{target.text!r} names one archive, so there is nothing to limit", hint="number the output, 'out-%06d.tar'"
        )
    refuse_outputs(target, options)
    if options.dry_run:
        return Report(outputs=(target.text,))
    shown = advancing(samples, options.advance)
    if one:
        return _write_one(shown, target.text, options)
    with SeriesWriter(target.text, options, counts) as sink:
        for sample in shown:
            sink.write(sample)
    return sink.report()


def _write_one(samples: Iterable[Sample], url: str, options: Options) -> Report:
    make_folder(url)
    record = Record(described=options.description is not None)
    written = 0
    with TarWriter(url, encoder=False, index=options.index and not is_stream(url)) as sink:
        sink.take_notes(record)
        for sample in samples:
            written += sink.write(sample)
    if options.description is not None:
        store_description(Description([record.entry(url)]), options.description)
    return Report(samples_out=sink.count, bytes_out=written, done=1, outputs=(url,))


class SeriesWriter:
    """Writes a numbered series of archives, and counts.

    >>> with SeriesWriter("memory://doc-series/%d.tar", Options(count=1)) as sink:
    ...     for key in "ab":
    ...         sink.write({"__key__": key, "txt": b"hello"})
    >>> sink.report().outputs
    ('memory://doc-series/0.tar', 'memory://doc-series/1.tar')
    """

    def __init__(self, pattern: str, options: Options, counts: Sequence[int] | None = None) -> None:
        make_folder(pattern)
        self._post = options.post
        self._counts = iter(counts or ())
        self._left = next(self._counts, -1)
        self._bytes = 0
        self._outputs: list[str] = []
        self._sink = ShardWriter(
            pattern,
            maxcount=options.count or (float("inf") if counts else DEFAULT_COUNT),
            maxsize=options.size or (float("inf") if counts or options.count else DEFAULT_SIZE),
            post=self._published,
            verbose=0,
            encoder=False,
            index=options.index and not is_stream(pattern),
            description=options.description,
            overwrite=options.force,
        )

    def write(self, sample: Sample) -> None:
        """Write one sample, into the next archive when this one is full."""
        if self._left == 0:
            self._sink.next_stream()
            self._left = next(self._counts, -1)
        self._left -= 1
        self._sink.write(sample)

    def report(self) -> Report:
        """The report on what was written."""
        outputs = tuple(self._outputs)
        return Report(samples_out=self._sink.total, bytes_out=self._bytes, done=len(outputs), outputs=outputs)

    def _published(self, url: str) -> None:
        self._bytes += int(self._sink.size)
        self._outputs.append(url)
        if self._post is not None:
            self._post(url)

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._sink.__exit__(*error)


def description_of(target: Stream) -> str | None:
    """The usual name of a dataset's description: that of its shards without the number.

    >>> from webdataset.tools._output_target import Series
    >>> description_of(Series("out/train-%06d.tar")), description_of(OneArchive("-"))
    ('out/train.json', None)
    """
    if isinstance(target, OneArchive) or is_stream(target.text):
        return None
    folder, slash, name = target.text.rpartition("/")
    stem = re.sub(r"[-_.]*%0?\d*d[-_.]*", "", without_suffix(name)).replace("%%", "%")
    return f"{folder}{slash}{stem or 'dataset'}.json"
