"""Samples in, numbered archives out."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable
from typing import Any, Self

from webdataset.arguments import is_number, require_callable_or_none, require_count
from webdataset.describe import refuse_unknown
from webdataset.errors import SpecError, StoreError, Where
from webdataset.redact import redacted
from webdataset.stores import as_address, close_or_abort

from ._earlier_run import EarlierRun
from ._shard_record import Record, Records
from ._tar_writer import TarWriter

logger = logging.getLogger(__name__)


class ShardWriter:
    """Write samples into a series of tar archives.

    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ShardWriter(f"{folder}/train-%06d.tar", maxcount=2) as sink:
    ...         for number in range(5):
    ...             sink.write({"__key__": f"{number:04d}", "cls": number})
    ...     sorted(os.listdir(folder)), sink.total
    (['train-000000.tar', 'train-000001.tar', 'train-000002.tar'], 5)

    A shard appears under its name when it is complete. When the `with` block raises, the current shard is discarded and
    the complete ones stay. A shard is opened by its first sample, so none is empty. A shard that another live writer is
    writing is refused.

    `shard` is one more than the number of the current shard, `fname` its name, `count` and `size` its samples and their
    payload bytes so far; `total` counts the samples of all shards. Before the first sample they describe the shard that
    it will be written to.

    Args:
        pattern: names of the shards with a placeholder for the number, `"train-%06d.tar"`: a path or a URL.
        maxcount: most samples in a shard.
        maxsize: a shard is full when its payloads have at least so many bytes.
        post: called with the name of each shard after it has been published.
        start_shard: number of the first shard.
        verbose: 1 logs each published shard at INFO, 0 at DEBUG.
        opener: called with the name of a shard, returns the stream to write to, which is closed when the shard ends.
        index: True stores the index of each shard beside it, as soon as it is published; a directory or URL stores it
            there.
        description: a `.json` file that lists the shards with their counts, sizes and checksums (as `wids` has it),
            stored when the writer is closed.
        overwrite: shards of an earlier, longer run under the same pattern, which would be left after the new ones, are
            removed when the writer is closed. False raises an error instead.
        **kw: everything that `TarWriter` takes.
    """

    def __init__(
        self,
        pattern: str | os.PathLike[str],
        maxcount: float = 100000,
        maxsize: float = 3e9,
        post: Callable[[str], Any] | None = None,
        start_shard: int = 0,
        verbose: int = 1,
        opener: Callable[[str], Any] | None = None,
        *,
        index: bool | str | os.PathLike[str] | None = None,
        description: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        **kw: Any,
    ) -> None:
        self.pattern = _checked_pattern(pattern)
        _check_arguments(maxcount=maxcount, maxsize=maxsize, start_shard=start_shard, post=post, opener=opener)
        refuse_unknown("ShardWriter", kw, ShardWriter, TarWriter)
        TarWriter(io.BytesIO(), **kw).abort()  # wrong arguments fail here, not at the first sample
        self.maxcount, self.maxsize, self.post, self.verbose = maxcount, maxsize, post, verbose
        self.opener, self.kw, self.overwrite = opener, kw, overwrite
        self._earlier: EarlierRun | None = None
        self._records = Records(self.pattern, index, description)
        self._record: Record | None = None
        self.shard, self.total = start_shard, 0
        self._tar: TarWriter | None = None
        self._opened: Any = None
        self._closed = self._finished = False
        self._advance()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"at {self.fname}, {self.count} samples in it"
        return redacted(f"<ShardWriter {self.pattern!r}: {state}, {self.total} samples in all>")

    @property
    def tarstream(self) -> TarWriter | None:
        """The writer of the current shard, which is opened now if it was not; None once closed or finished."""
        if self._tar is None and not self._closed and not self._finished:
            self._tar = self._open()
        return self._tar

    def write(self, sample: dict[str, Any]) -> None:
        """Write one sample, into the next shard when this one is full."""
        self._require_open()
        if self._finished or self.count >= self.maxcount or self.size >= self.maxsize:
            self.next_stream()
        tar = self.tarstream
        assert tar is not None
        self.size += tar.write(sample)
        self.count += 1
        self.total += 1

    def next_stream(self) -> None:
        """Publish the current shard and continue with the next number; a shard without samples keeps its number."""
        self._require_open()
        self.finish()
        if self._finished:
            self._advance()

    def finish(self) -> None:
        """Publish the current shard; the next sample begins another one."""
        tar = self._tar
        if self._closed or tar is None:
            return
        if tar.count == 0:
            self._discard()
            tar.close()  # raises when it is empty because its first sample could not be written
            return
        try:
            tar.close()
            if self._opened is not None:
                self._opened.close()
            if self._record is not None:
                self._records.keep(self._record, self.fname)
        except BaseException:
            self.abort()
            raise
        self._tar = self._opened = None
        self._finished = True
        level = logging.INFO if self.verbose else logging.DEBUG
        name = redacted(self.fname)
        logger.log(level, "wrote %s: %d samples, %d bytes; %d in all", name, self.count, self.size, self.total)
        if self.post is not None:
            self.post(self.fname)

    def close(self) -> None:
        """Publish the current shard and end; more calls do nothing."""
        if self._closed:
            return
        self.finish()
        self._closed = True
        if self._earlier is not None:
            stop = self.shard if self._finished else self.shard - 1
            self._earlier.refuse_or_remove(stop, self._records.location, overwrite=self.overwrite)
        self._records.close()

    def abort(self) -> None:
        """Discard the current shard and end; published shards stay."""
        self._discard()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    __exit__ = close_or_abort

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the ShardWriter is closed", Where(shard=self.fname), hint="open another one")

    def _advance(self) -> None:
        self.fname = self.pattern % self.shard
        self.shard += 1
        self.count = self.size = 0
        self._finished = False

    def _open(self) -> TarWriter:
        target: Any = self.fname
        if self.opener is None and self._earlier is None:
            self._earlier = EarlierRun(self.pattern, self.shard - 1)
        if self.opener is not None:
            target = self.opener(self.fname)
            self._opened = target if callable(getattr(target, "close", None)) else None
        tar = TarWriter(target, **self.kw)
        self._record = self._records.begin()
        if self._record is not None:
            tar.take_notes(self._record)
        return tar

    def _discard(self) -> None:
        tar, opened = self._tar, self._opened
        self._tar = self._opened = None
        try:
            if tar is not None:
                tar.abort()
        finally:
            if opened is not None:
                getattr(opened, "abort", opened.close)()


def _checked_pattern(pattern: Any) -> str:
    try:
        text = as_address(pattern)
        if text % 0 == text % 1:
            raise ValueError("all shards would have the same name")
    except (TypeError, ValueError) as error:
        raise SpecError(
            f"{pattern!r} cannot number shards: {error}",
            hint="use one placeholder for the number, like 'train-%06d.tar', and '%%' for any other '%'",
        ) from error
    return text


def _check_arguments(*, maxcount: Any, maxsize: Any, start_shard: Any, post: Any, opener: Any) -> None:
    for name, value in (("maxcount", maxcount), ("maxsize", maxsize)):
        if not is_number(value) or not value > 0:
            raise SpecError(f"{name}={value!r}: expected a number above 0")
    require_count("ShardWriter", "start_shard", start_shard, least=0)
    require_callable_or_none("ShardWriter", post=post, opener=opener)
