"""A stream of samples → one archive or a series of archives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webdataset import stores
from webdataset.errors import SpecError
from webdataset.index import Description, index_url, seen_from, write_description
from webdataset.writers import Record, ShardWriter, TarWriter

from ._report import Report
from ._target import OneArchive, PerShard, Series, Target, existing_outputs, make_folder, refuse_existing

Sample = dict[str, Any]
Advance = Callable[[int], None]

DEFAULT_COUNT = 100_000
DEFAULT_SIZE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Writing:
    """Where samples go, and how.

    Attributes:
        target: one archive or a series.
        count: most samples in a shard of a series.
        size: a shard of a series is full when its fields have at least so many bytes.
        counts: the number of samples of each shard of a series, in place of the limits.
        index: store an index beside each shard.
        description: where the description of all shards goes.
        force: replace outputs that exist.
        post: called with the address of each shard of a series after it is published.
    """

    target: Target
    count: int | None = None
    size: float | None = None
    counts: tuple[int, ...] | None = None
    index: bool = True
    description: str | None = None
    force: bool = False
    post: Callable[[str], Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.target, PerShard):
            raise SpecError(
                f"a stream of samples cannot be written to {self.target.template!r}",
                hint="give one archive, or a pattern such as 'out-%06d.tar'",
            )
        if isinstance(self.target, OneArchive) and (self.count or self.size or self.counts):
            raise SpecError(
                f"{self.target.url!r} names one archive, so there is nothing to limit",
                hint="number the output, 'out-%06d.tar'",
            )


def write_samples(samples: Iterable[Sample], writing: Writing, *, advance: Advance | None = None) -> Report:
    """Write samples, publish each archive when it is complete, and count.

    >>> write_samples([{"__key__": "a", "txt": b"hello"}], Writing(OneArchive("memory://doc-tools/a.tar")))
    Report(samples_in=0, samples_out=1, bytes_out=5, done=1, ... outputs=('memory://doc-tools/a.tar',), notes=())

    Args:
        samples: samples of bytes.
        writing: where they go.
        advance: called with the number of samples written since the last call.
    """
    before = existing_outputs(writing.target)
    refuse_existing(before, force=writing.force)
    shown = samples if advance is None else _advancing(samples, advance)
    if isinstance(writing.target, OneArchive):
        return _write_one(shown, writing.target.url, writing)
    assert isinstance(writing.target, Series)
    report = _write_series(shown, writing.target.pattern, writing)
    remove_stale(set(before) - set(report.outputs))
    return report


def _advancing(samples: Iterable[Sample], advance: Advance) -> Iterator[Sample]:
    for sample in samples:
        yield sample
        advance(1)


def _write_one(samples: Iterable[Sample], url: str, writing: Writing) -> Report:
    make_folder(url)
    named = url != "-" and not url.startswith("pipe:")
    record = Record(described=writing.description is not None)
    written = 0
    with TarWriter(url, encoder=False, index=writing.index and named) as sink:
        sink.take_notes(record)
        for sample in samples:
            written += sink.write(sample)
        count = sink.count
    if writing.description is not None:
        entry = record.entry(seen_from(writing.description, url))
        with stores.open_write(writing.description) as stream:
            stream.write(write_description(Description([entry])))
    return Report(samples_out=count, bytes_out=written, done=1, outputs=(url,))


def _write_series(samples: Iterable[Sample], pattern: str, writing: Writing) -> Report:
    make_folder(pattern)
    outputs: list[str] = []
    boundaries = iter(writing.counts or ())
    written = 0

    def published(url: str) -> None:
        outputs.append(url)
        if writing.post is not None:
            writing.post(url)

    sink = ShardWriter(
        pattern,
        maxcount=writing.count or (float("inf") if writing.counts else DEFAULT_COUNT),
        maxsize=writing.size or (float("inf") if writing.counts or writing.count else DEFAULT_SIZE),
        post=published,
        verbose=0,
        encoder=False,
        index=writing.index and not pattern.startswith("pipe:"),
        description=writing.description,
    )
    with sink:
        left = next(boundaries, -1)
        for sample in samples:
            if left == 0:
                sink.next_stream()
                left = next(boundaries, -1)
            left -= 1
            size = sink.size
            sink.write(sample)
            written += sink.size - (size if sink.count > 1 else 0)
    return Report(samples_out=sink.total, bytes_out=written, done=len(outputs), outputs=tuple(outputs))


def remove_stale(urls: Iterable[str]) -> None:
    """Remove shards of the series that this one replaces, so that no reader mixes the two; local files only."""
    for url in urls:
        for name in (url, index_url(url)):
            path = stores.is_local(name)
            if path is not None:
                Path(path).unlink(missing_ok=True)


def description_of(target: Target) -> str | None:
    """The usual name of a dataset's description: that of its shards without the number.

    >>> description_of(Series("out/train-%06d.tar")), description_of(OneArchive("-"))
    ('out/train.json', None)
    """
    if not isinstance(target, Series) or target.pattern.startswith("pipe:"):
        return None
    folder, slash, name = target.pattern.rpartition("/")
    stem = re.sub(r"(\.tar(\.\w+)?|\.tgz)$", "", name)
    stem = re.sub(r"[-_.]*%0?\d*d[-_.]*", "", stem).replace("%%", "%")
    return f"{folder}{slash}{stem or 'dataset'}.json"
