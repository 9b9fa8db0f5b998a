"""Samples → one file, or a series of files: the part of a conversion that writes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from webdataset import stores
from webdataset.errors import SpecError

from ._field_mapping import ADDED
from ._format_table import find_format
from ._record_format import Format, Record, RecordSink

_NUMBER = re.compile(r"%\d*d")


def is_series(target: str) -> bool:
    """Whether the name has a placeholder for a number.

    >>> is_series("train-%06d.tar"), is_series("50%.tar")
    (True, False)
    """
    return len(_NUMBER.findall(target)) == 1


class RollingSink(RecordSink):
    """A series of files of one format; a new one is begun when one is full.

    >>> from webdataset.interop import Tar
    >>> with RollingSink(Tar(), "memory://rolling/%02d.tar", maxcount=2) as sink:
    ...     for number in range(3):
    ...         _ = sink.write({"__key__": str(number), "cls": number})
    >>> sink.files
    ['memory://rolling/00.tar', 'memory://rolling/01.tar']

    A file is published when it is full, or when the sink is closed. When the `with` block raises, the current file is
    discarded.

    Args:
        format: what to write.
        target: the name of the file; with `%06d` in it, a series.
        maxcount: most samples in a file.
        maxsize: a file is full when it has at least so many bytes.
    """

    def __init__(self, format: Format, target: str, *, maxcount: float = 100000, maxsize: float = 3e9) -> None:  # noqa: A002
        self._format, self._target = format, target
        self._rolls = is_series(target)
        self._maxcount, self._maxsize = maxcount, maxsize
        self._sink: RecordSink | None = None
        self._count = self._size = 0
        self.files: list[str] = []
        self.counts: list[int] = []  # samples of each of these files
        self.total = self.size = 0

    def write(self, sample: Record) -> int:
        """Write one sample; returns about how many bytes it takes."""
        if self._rolls and (self._count >= self._maxcount or self._size >= self._maxsize):
            self.close()
        with stores.system_errors(self._url()):
            if self._sink is None:
                self._count = self._size = 0
                self._sink = self._format.create(self._url())
            size = self._sink.write(sample)
        self._size += size
        self.size += size
        self._count += 1
        self.total += 1
        return size

    def abort(self) -> None:
        """Discard the current file."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.abort()

    def _url(self) -> str:
        """The address of the current file."""
        return self._target % len(self.files) if self._rolls else self._target

    def close(self) -> None:
        """Publish the current file."""
        if self._sink is None:
            return
        try:
            with stores.system_errors(self._url()):
                self._sink.close()
        except BaseException:
            self.abort()
            raise
        self._sink = None
        self.counts.append(self._count)
        self.files.append(self._url())


def write(samples: Iterable[Record], target: str, format: Any = None, **limits: Any) -> int:  # noqa: A002
    """Write samples as another format and return how many there were.

    >>> write([{"label": 7}, {"label": 8}], "memory://docs/write.tfrecord")
    2

    Args:
        samples: dicts; fields whose names start with `__` are left out, except `__key__`.
        target: a path or URL; with `%06d` in it, a series of files.
        format: its name, or an object with options; None goes by the suffix.
        limits: `maxcount` and `maxsize` of each file of a series.
    """
    kind = find_format(format, target)
    if not kind.writes:
        raise SpecError(f"{kind.name} cannot be written", hint="choose another format")
    with RollingSink(kind, target, **limits) as sink:
        for sample in samples:
            sink.write({name: value for name, value in sample.items() if name not in ADDED})
    return sink.total
