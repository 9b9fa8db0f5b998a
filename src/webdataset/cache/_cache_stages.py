"""Shard addresses in, opened shards out: through a cache, or without."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from webdataset import config
from webdataset.handlers import Handler, reraise_exception
from webdataset.stores import as_address, is_local, open_read, skip

from ._file_names import url_to_hashed_name
from ._file_type import check_tar_format
from ._shard_cache import ShardCache

Shard = dict[str, Any]

# The directory that the public library uses for a cache that is given none.
DEFAULT_FOLDER = "./_cache"


class StreamingOpen:
    """Opens each shard in its store.

    >>> from webdataset import stores
    >>> with stores.open_write("memory://open/a.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> [shard["stream"].read() for shard in StreamingOpen()(["memory://open/a.tar"])]
    [b'hello']

    Args:
        verbose: Accepted as the public library does; opened addresses are logged with `GOPEN_VERBOSE=1`.
        handler: Called for a shard that cannot be opened.
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
    """Opens each shard from a cache directory, after it was fetched as a whole; local files are opened directly.

    >>> import tempfile, tarfile
    >>> from webdataset import stores
    >>> with stores.open_write("memory://files/a.tar") as stream:
    ...     tarfile.open(fileobj=stream, mode="w|").close()
    >>> cache = FileCache(tempfile.mkdtemp())
    >>> for shard in cache(["memory://files/a.tar"]):
    ...     with shard["stream"]:
    ...         os.path.getsize(shard["local_path"])
    10240

    Here `local_path` is a complete file, as in the public library. `WebDataset(cache_dir=...)` reads a shard while it
    is fetched.

    Args:
        cache_dir: The directory; `WDS_CACHE`, else `./_cache`, if none is given.
        url_to_name: The file name for an address; by default a hash of the full address and its last component.
        verbose: Log hits and downloads at INFO, as `WDS_VERBOSE_CACHE=1` does.
        validator: A function of a path; a file that it refuses is not kept.
        handler: Called once for a shard that failed, after all retries.
        cache_size: Limit in bytes, with shards that are being fetched; -1 takes `WDS_CACHE_SIZE`, else none.
        cache_cleanup_interval: Seconds between two searches for what killed processes left.
        revalidate: When a copy is compared with its origin; see `ShardCache`.
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
        revalidate: str | None = None,
    ) -> None:
        folder = cache_dir if cache_dir is not None else config.read("WDS_CACHE") or DEFAULT_FOLDER
        limit = int(cache_size) if cache_size is not None and cache_size >= 0 else config.read("WDS_CACHE_SIZE")
        self.cache = ShardCache(
            os.fspath(folder), limit, url_to_name, validator, cache_cleanup_interval, verbose, revalidate
        )
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
        path = self.get_file(url)
        try:
            return {"url": url, "stream": open_read(path), "local_path": path}
        except FileNotFoundError:
            if is_local(url) is not None:
                raise
            path = self.get_file(url)  # another process evicted it in between
            return {"url": url, "stream": open_read(path), "local_path": path}


@dataclass(frozen=True, repr=False)
class CachedOpener:
    """Opens one shard through a cache, and reads it while it is fetched: an `opener` for readers of samples.

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

    def __repr__(self) -> str:
        return "CachedOpener()"  # part of a checkpoint, which may be loaded on a machine with another directory

    def __call__(self, url: str, *, start: int = 0) -> Any:
        """A stream of the shard from byte `start` on; local files are opened directly."""
        if is_local(url) is not None:
            return open_read(url, start=start)
        stream = self.cache.open(url)
        if stream.seekable():
            stream.seek(start)
        else:
            skip(stream, start, url)
        return stream

    def open_soon(self, url: str) -> Any:
        """A stream of the shard that is being fetched from now on; `begin` waits for its first byte."""
        return self.cache.open_soon(url)

    def fetch(self, url: str) -> str:
        """The path of a complete copy of a shard; a local file is its own."""
        return is_local(url) or self.cache.get(url)

    def local_path(self, url: str) -> str:
        """Where the copy of a shard is, or will be."""
        return is_local(url) or os.path.join(self.cache.folder, self.cache.name(url))


def _opened(urls: Iterable[str | Shard], opener: Callable[[str], Shard], handler: Handler) -> Iterator[Shard]:
    """Open one after the other; the handler is called once for each that cannot be opened."""
    for item in urls:
        shard = dict(item) if isinstance(item, dict) else {"url": item}
        try:
            opened = opener(as_address(shard["url"]))
        except Exception as error:
            if handler(error):
                continue
            return
        yield {**shard, **opened}
