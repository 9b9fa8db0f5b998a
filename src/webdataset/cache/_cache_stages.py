"""Shard addresses in, opened shards out: with a cache between, or without."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webdataset import config
from webdataset.handlers import Handler, reraise_exception
from webdataset.stores import is_local, open_read, skip

from ._file_names import url_to_hashed_name
from ._shard_cache import ShardCache
from ._sniff import check_tar_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Shard = dict[str, Any]

# Where the public library puts a cache that is given no directory.
DEFAULT_FOLDER = "./_cache"


class StreamingOpen:
    """Opens each shard where it lies.

    >>> from webdataset import stores
    >>> with stores.open_write("memory://open/a.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> [shard["stream"].read() for shard in StreamingOpen()(["memory://open/a.tar"])]
    [b'hello']

    Args:
        verbose: Kept for the public library's sake; opened addresses are logged with `GOPEN_VERBOSE=1`.
        handler: What to do with a shard that cannot be opened.
    """

    def __init__(self, verbose: bool = False, handler: Handler = reraise_exception) -> None:
        self.verbose, self.handler = verbose, handler

    def __call__(self, urls: Iterable[str | Shard]) -> Iterator[Shard]:
        return _opened(urls, self._open, self.handler)

    def _open(self, url: str) -> Shard:
        path = is_local(url)
        found: Shard = {"url": url, "stream": open_read(url)}
        if path is not None:
            found["local_path"] = path
        return found


class FileCache:
    """Opens each shard through a cache directory; local files are read where they are.

    >>> import tempfile, tarfile
    >>> from webdataset import stores
    >>> with stores.open_write("memory://files/a.tar") as stream:
    ...     tarfile.open(fileobj=stream, mode="w|").close()
    >>> cache = FileCache(tempfile.mkdtemp())
    >>> [len(shard["stream"].read()) for shard in cache(["memory://files/a.tar"])]
    [10240]

    Args:
        cache_dir: The directory; `WDS_CACHE`, else `./_cache`, if none is given.
        url_to_name: The file name for an address; by default a hash of the full address and its last component.
        verbose: Log hits and downloads at INFO, as `WDS_VERBOSE_CACHE=1` does.
        validator: A function of a path; what it does not approve of is not kept.
        handler: Called once with what went wrong with a shard, after all retries.
        cache_size: Limit in bytes, with what is on its way; -1 takes `WDS_CACHE_SIZE`, else none.
        cache_cleanup_interval: Seconds between two looks for what killed processes left behind.
    """

    def __init__(
        self,
        cache_dir: str | os.PathLike[str] | None = None,
        *,
        url_to_name: Callable[[str], str] = url_to_hashed_name,
        verbose: bool = False,
        validator: Callable[[str], Any] | None = check_tar_format,
        handler: Handler = reraise_exception,
        cache_size: float = -1,
        cache_cleanup_interval: float = 30,
    ) -> None:
        folder = cache_dir if cache_dir is not None else config.read("WDS_CACHE") or DEFAULT_FOLDER
        limit = int(cache_size) if cache_size is not None and cache_size >= 0 else config.read("WDS_CACHE_SIZE")
        self.cache = ShardCache(os.fspath(folder), limit, url_to_name, validator, cache_cleanup_interval, verbose)
        self.cache_dir = self.cache.folder
        self.verbose, self.handler = verbose, handler

    def get_file(self, url: str) -> str:
        """The path of a complete local copy."""
        return is_local(url) or self.cache.get(url)

    def open(self, url: str) -> Any:
        """A stream of one shard."""
        return self._open(url)["stream"]

    def __call__(self, urls: Iterable[str | Shard]) -> Iterator[Shard]:
        return _opened(urls, self._open, self.handler)

    def _open(self, url: str) -> Shard:
        path = is_local(url)
        if path is not None:
            return {"url": url, "stream": open_read(url), "local_path": path}
        stream = self.cache.open(url)
        found: Shard = {"url": url, "stream": stream}
        name = getattr(stream, "name", None)
        if isinstance(name, str):
            found["local_path"] = name
        return found


@dataclass(frozen=True)
class CachedOpener:
    """Opens one shard through a cache: what a reader of samples is given for `opener`.

    >>> import tempfile, tarfile
    >>> from webdataset import stores
    >>> with stores.open_write("memory://opener/a.tar") as stream:
    ...     tarfile.open(fileobj=stream, mode="w|").close()
    >>> opener = CachedOpener(ShardCache(tempfile.mkdtemp()))
    >>> with opener("memory://opener/a.tar", start=512) as stream:
    ...     len(stream.read())
    9728
    """

    cache: ShardCache

    def __call__(self, url: str, *, start: int = 0) -> Any:
        """A stream of the shard from byte `start` on; local files are read where they are."""
        if is_local(url) is not None:
            return open_read(url, start=start)
        stream = self.cache.open(url)
        try:
            if stream.seekable():
                stream.seek(start)
            else:
                skip(stream, start, url)
        except BaseException:
            stream.close()
            raise
        return stream

    def fetch(self, url: str) -> str:
        """The path of a complete copy of a shard; a local file is its own."""
        return is_local(url) or self.cache.get(url)

    def local_path(self, url: str) -> str:
        """Where the copy of a shard lies, or will."""
        return is_local(url) or os.path.join(self.cache.folder, self.cache.name(url))


def _opened(urls: Iterable[str | Shard], opener: Callable[[str], Shard], handler: Handler) -> Iterator[Shard]:
    """Open one after the other; the handler decides once about each that cannot be opened."""
    for item in urls:
        shard = dict(item) if isinstance(item, dict) else {"url": item}
        try:
            opened = opener(os.fspath(shard["url"]))
        except Exception as error:
            if handler(error):
                continue
            return
        yield {**shard, **opened}
