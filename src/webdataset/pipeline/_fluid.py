"""The fluid interface: every stage as a method that returns a longer pipeline.

Each method is one line: the stage of the same name, composed. (tests compare the signatures.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TextIO, Unpack

from webdataset import stages
from webdataset.handlers import Handler, reraise_exception
from webdataset.stages import ImageOptions, ShuffleOptions, default_collation_fn


class FluidInterface:
    """Methods for `DataPipeline` subclasses.

    >>> from webdataset.pipeline import FluidWrapper
    >>> list(FluidWrapper([1, 2, 3]).map(lambda n: n + 1).batched(2, collation_fn=None))
    [[2, 3], [4]]
    """

    def compose(self, *stages: Any) -> Self:
        """A copy with more stages; `DataPipeline` has it."""
        raise NotImplementedError

    def pipe(self, f: Callable[..., Iterable[Any]], *args: Any, **kw: Any) -> Self:
        """Add any function from an iterator to an iterator; more arguments are passed on after it.

        >>> from itertools import islice
        >>> from webdataset.pipeline import FluidWrapper
        >>> list(FluidWrapper([1, 2, 3]).pipe(islice, 2))
        [1, 2]
        """
        return self.compose(stages.pipelinefilter(f)(*args, **kw) if args or kw else f)

    then = pipe

    def batched(
        self,
        batchsize: int,
        collation_fn: Callable[[Sequence[Any]], Any] | None = default_collation_fn,
        partial: bool = True,
    ) -> Self:
        """Collect samples into batches."""
        return self.compose(stages.batched(batchsize, collation_fn=collation_fn, partial=partial))

    def bucketed(
        self,
        batchsize: int | Sequence[int],
        boundaries: Sequence[float],
        length: str | int | Callable[[Any], float] = 0,
        collation_fn: Callable[[Sequence[Any]], Any] | None = default_collation_fn,
        partial: bool = True,
    ) -> Self:
        """Collect samples of similar lengths into batches."""
        return self.compose(stages.bucketed(batchsize, boundaries, length, collation_fn, partial))

    def packed(
        self,
        size: int,
        fields: str | Sequence[str],
        rows: int = 16,
        value: Any = 0,
        overlong: Literal["error", "drop", "cut", "split"] = "error",
    ) -> Self:
        """Put sequences side by side into rows of one length."""
        return self.compose(stages.packed(size, fields, rows, value, overlong))

    def unbatched(self) -> Self:
        """Turn batches back into samples."""
        return self.compose(stages.unbatched())

    def listed(self, batchsize: int, partial: bool = True) -> Self:
        """Collect samples into lists."""
        return self.compose(stages.listed(batchsize, partial=partial))

    def unlisted(self) -> Self:
        """Turn lists back into samples."""
        return self.compose(stages.unlisted())

    def log_keys(self, logfile: str | None = None) -> Self:
        """Write the key of every sample to a file."""
        return self.compose(stages.log_keys(logfile))

    def info(
        self,
        fmt: str | None = None,
        n: int = 3,
        every: int = -1,
        width: int = 50,
        stream: TextIO | None = None,
        name: str = "",
    ) -> Self:
        """Print some of the samples."""
        return self.compose(stages.info(fmt, n, every, width, stream, name))

    def shuffle(self, size: int, **kw: Unpack[ShuffleOptions]) -> Self:
        """Shuffle with a buffer of this size; below 1 the order stays as it is."""
        stage = stages.shuffle(size, **kw)
        return self if size < 1 else self.compose(stage)

    def detshuffle(self, bufsize: int = 1000, initial: int = 100, seed: int = 0, epoch: int = -1) -> Self:
        """Shuffle by seed and epoch."""
        return self.compose(stages.detshuffle(bufsize, initial, seed, epoch))

    def map(self, f: Callable[[Any], Any], handler: Handler = reraise_exception) -> Self:
        """Apply a function to every sample; None leaves the sample out."""
        return self.compose(stages.map(f, handler=handler))

    def decode(
        self,
        *args: Any,
        pre: list[Any] | None = None,
        post: list[Any] | None = None,
        only: Any = None,
        partial: bool = False,
        handler: Handler = reraise_exception,
        **image: Unpack[ImageOptions],
    ) -> Self:
        """Decode the fields by their extensions; what else is given says how images are cropped and resized."""
        stage = stages.decode(*args, pre=pre, post=post, only=only, partial=partial, handler=handler, **image)
        return self.compose(stage)

    def map_dict(self, /, handler: Handler = reraise_exception, **kw: Callable[[Any], Any]) -> Self:
        """Apply functions to fields."""
        return self.compose(stages.map_dict(handler=handler, **kw))

    def select(self, predicate: Callable[[Any], bool], handler: Handler = reraise_exception) -> Self:
        """Keep the samples for which the predicate holds."""
        return self.compose(stages.select(predicate, handler=handler))

    def associate(self, associator: Any, handler: Handler = reraise_exception) -> Self:
        """Add the fields that a table or function gives for the sample's key."""
        return self.compose(stages.associate(associator, handler=handler))

    def to_tuple(
        self,
        *args: str | Sequence[str],
        handler: Handler = reraise_exception,
        missing_is_error: bool = True,
        none_is_error: bool | None = None,
    ) -> Self:
        """Turn samples into tuples of fields."""
        stage = stages.to_tuple(*args, handler=handler, missing_is_error=missing_is_error, none_is_error=none_is_error)
        return self.compose(stage)

    def map_tuple(self, *args: Callable[[Any], Any] | None, handler: Handler = reraise_exception) -> Self:
        """Apply functions to the values of a tuple."""
        return self.compose(stages.map_tuple(*args, handler=handler))

    def slice(self, *args: int | None) -> Self:
        """Keep a range of the stream, as `itertools.islice` does."""
        return self.compose(stages.slice(*args))

    def rename(self, /, **kw: Any) -> Self:
        """Rename fields."""
        return self.compose(stages.rename(**kw))

    def rsample(self, p: float = 0.5) -> Self:
        """Keep each sample with probability p."""
        return self.compose(stages.rsample(p))

    def rename_keys(
        self,
        *args: tuple[str, str],
        keep_unselected: bool = False,
        must_match: bool = True,
        duplicate_is_error: bool = True,
        handler: Handler = reraise_exception,
        **kw: str,
    ) -> Self:
        """Rename fields by patterns."""
        stage = stages.rename_keys(
            *args,
            keep_unselected=keep_unselected,
            must_match=must_match,
            duplicate_is_error=duplicate_is_error,
            handler=handler,
            **kw,
        )
        return self.compose(stage)

    def extract_keys(
        self,
        *patterns: str | Sequence[str],
        duplicate_is_error: bool = True,
        ignore_missing: bool = False,
        handler: Handler = reraise_exception,
    ) -> Self:
        """Turn samples into tuples of the fields that match patterns."""
        stage = stages.extract_keys(
            *patterns, duplicate_is_error=duplicate_is_error, ignore_missing=ignore_missing, handler=handler
        )
        return self.compose(stage)

    def xdecode(self, *args: Any, **kw: Any) -> Self:
        """Decode fields by patterns, with decoders that take a stream."""
        return self.compose(stages.xdecode(*args, **kw))

    def mcached(self) -> Self:
        """Keep all samples in memory after the first pass."""
        return self.compose(stages.Cached())

    def lmdb_cached(self, fname: str | Path, map_size: float = 1e12, pickler: Any = None, chunksize: int = 500) -> Self:
        """Keep all samples in an LMDB file after the first pass."""
        return self.compose(stages.LMDBCached(fname, map_size, pickler, chunksize))

    def dbcache(
        self, dbname: str | Path, size: int, *, shuffle: bool = False, verbose: bool = True, pickler: Any = None
    ) -> Self:
        """Keep `size` samples in an SQLite file."""
        return self.compose(stages.DBCache(dbname, size, shuffle=shuffle, verbose=verbose, pickler=pickler))
