"""A directory of shards, shared by all processes that use it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import IO, Any

from webdataset import config
from webdataset.arguments import require_callable, require_callable_or_none, require_choice, require_number
from webdataset.errors import SpecError, StoreError, Where
from webdataset.mutex import Mutex
from webdataset.redact import hides_secrets
from webdataset.stores import Stream, counters, open_read, redacted

from ._disk_errors import disk_errors
from ._fetch_shard import DoesNotFit, Fill, Stopped, file_checksum
from ._file_names import safe_name, url_hash, url_to_hashed_name
from ._file_type import check_tar_format
from ._follow_fetch import Follower
from ._locks import Locks, Wait
from ._quota import Quota
from ._records import Entry, Records, file_size, fill_lock
from ._revalidate import POLICIES, Revalidation

_log = logging.getLogger(__name__)


@hides_secrets
@dataclass
class ShardCache:
    """Shards on the local disk. Each is fetched once, by one of all processes, and can be read while it is fetched.

    >>> import tempfile, tarfile, io
    >>> from webdataset import stores
    >>> with stores.open_write("memory://cached/a.tar") as stream:
    ...     tarfile.open(fileobj=stream, mode="w|").close()
    >>> cache = ShardCache(tempfile.mkdtemp(), limit=10**9)
    >>> with cache.open("memory://cached/a.tar") as stream:
    ...     len(stream.read())
    10240
    >>> cache.get("memory://cached/a.tar").endswith("-a.tar")
    True

    Args:
        folder: The directory; `~` is expanded, and it is made if it does not exist.
        limit: Bytes, counting shards that are being fetched; negative for no limit.
        url_to_name: The file name for an address; by default a hash of the full address and its last component.
        validator: A function of a path; a file that it refuses is not kept.
        interval: Seconds between two searches for what killed processes left.
        verbose: Log hits and downloads at INFO, as `WDS_VERBOSE_CACHE=1` does.
        revalidate: When a copy is compared with its origin: `never`, `size+version` (on open, if the origin answers) or
            `always` (on open, with its checksum; the origin must answer). None takes `WDS_CACHE_REVALIDATE`.
        opener: Opens the origin: `opener(url, start=...)`.
    """

    folder: str
    limit: int = -1
    url_to_name: Callable[[str], str] = url_to_hashed_name
    validator: Callable[[str], Any] | None = check_tar_format
    interval: float = 30.0
    verbose: bool = False
    revalidate: str | None = None
    opener: Callable[..., Any] = open_read
    _directories: dict[int, CacheDirectory] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )  # by process

    def __post_init__(self) -> None:
        require_callable("ShardCache", url_to_name=self.url_to_name)
        require_callable_or_none("ShardCache", validator=self.validator)
        require_number("ShardCache", "limit", self.limit, least=-1, expected="a number of bytes, or -1 for no limit")
        require_choice("revalidate", self.revalidate, (None, *POLICIES))
        self.folder = os.path.abspath(os.path.expanduser(os.fspath(self.folder)))

    def open(self, url: str) -> Stream | IO[bytes]:
        """A stream of the shard: from the disk if it is there, else as it arrives."""
        stream = self.open_soon(url)
        if isinstance(stream, Follower):
            stream.begin()
        return stream

    def open_soon(self, url: str) -> Follower | IO[bytes]:
        """Open the shard without waiting for its first byte; the fetch starts now if the shard is not on the disk."""
        name = self.name(url)
        path = self.intact(url, name)
        with disk_errors(self.folder, url):
            if path is not None:
                with suppress(FileNotFoundError):  # evicted by another process in the meantime: a miss
                    return open(path, "rb")
            self._missed(url)
            return Follower(self, url, name)

    def get(self, url: str) -> str:
        """Return the path of the shard, after fetching it if necessary."""
        name, wait = self.name(url), Wait()
        while True:
            path = self.intact(url, name)
            if path is not None:
                return path
            fill = self.attach(url, name)
            if fill is not None:
                self._missed(url)
                fill.join()
                self.detach(fill)
                self._raise(fill, url)
            elif not wait.once():
                raise StoreError(
                    "another process does not finish fetching the shard into the cache",
                    Where(shard=url),
                    hint=f"look for a hanging process that uses {self.folder}",
                )

    def forget(self, url: str) -> None:
        """Remove the shard, so that it is fetched again."""
        name, directory = self.name(url), self._directory()
        with disk_errors(self.folder, url), directory.locks.holding("room"):
            if directory.records.entry(name) is not None:
                directory.quota.forget(name)

    def name(self, url: str) -> str:
        """Return the file name that the shard has, or will have."""
        return safe_name(self.url_to_name(url), url)

    def path(self, name: str) -> str:
        """Return the path of a published shard."""
        return self._directory().records.data(name)

    def intact(self, url: str, name: str) -> str | None:
        """Return the path of the published shard if it is intact and its origin has not changed; else remove it."""
        directory = self._directory()
        with disk_errors(self.folder, url):
            path, entry = directory.records.data(name), self.published(url, name)
            if entry is None:
                return self._adopted(path, url, name)
            why = self._reason_to_refetch(path, entry, url, name)
        if why is not None:
            if why:
                _log.warning("%s: %s; fetching it again", redacted(url), why)
                counters.add("cache.damaged")
                self.forget(url)
            return None
        directory.records.touch(name)
        counters.add("cache.hits")
        self._note("found", url)
        return path

    def published(self, url: str, name: str) -> Entry | None:
        """Return the entry of the shard; raise an error if another address has the same name."""
        entry = self._directory().records.entry(name)
        if entry is not None and entry.url_hash != url_hash(url):
            raise SpecError(
                f"url_to_name gives the name {name!r} to two addresses: {entry.url}",
                Where(shard=url),
                hint="leave url_to_name out: the default gives every address a name of its own",
            )
        return entry

    def locate(self, url: str, name: str, position: int) -> tuple[str | None, str | None]:
        """Return the file that has the byte at `position`, or that ends there if it is published, and its version."""
        records = self._directory().records
        entry = self.published(url, name)
        if entry is not None:
            return records.data(name), entry.version
        longest = position
        found: tuple[str | None, str | None] = (None, None)
        for _, token in records.parts(name):
            claim, path = records.claim(name, token), records.part(name, token)
            size = file_size(path)
            if claim is not None and claim.url_hash == url_hash(url) and claim.is_live and size > longest:
                longest, found = size, (path, claim.version)
        return found

    def attach(self, url: str, name: str) -> Fill | None:
        """Return the fill of this process, started if no process fetches the shard; None if another process does."""
        directory = self._directory()
        with disk_errors(self.folder, url), directory.mutex:
            fill = directory.fills.get(name)
            if fill is None or fill.finished:
                if not directory.locks.try_acquire(fill_lock(name)):
                    return None
                try:
                    fill = directory.fills[name] = Fill(directory, url, name)
                except BaseException:  # no thread could be started
                    directory.locks.release(fill_lock(name))
                    raise
            fill.readers += 1
            return fill

    def detach(self, fill: Fill) -> None:
        """Note that a reader has left; a fill without readers is stopped."""
        directory = self._directories.get(os.getpid())
        if directory is None:
            return  # the fill is of the process that this one was forked from
        with directory.mutex:
            fill.readers -= 1
            if fill.readers or directory.fills.get(fill.name) is not fill:
                return
            del directory.fills[fill.name]
        fill.stop()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_directories": {}}

    def _reason_to_refetch(self, path: str, entry: Entry, url: str, name: str) -> str | None:
        """Return why the copy must not be used; "" if it does not exist, None if it may be used.

        The checksum is computed only for a file with another time of change than recorded, as after copying the
        directory, and by the policy `always`.
        """
        directory, policy = self._directory(), self.revalidate or config.read("WDS_CACHE_REVALIDATE")
        try:
            found = os.stat(path)
            if found.st_size != entry.size:
                return f"the copy has {found.st_size} bytes, expected {entry.size}"
            if (found.st_mtime_ns != entry.mtime_ns or policy == "always") and file_checksum(path) != entry.checksum:
                return "the checksum of the copy is wrong"
        except FileNotFoundError:  # evicted by another process in the meantime
            return ""
        if found.st_mtime_ns != entry.mtime_ns:
            with suppress(OSError):  # so that the next process need not compute the checksum
                directory.records.write_entry(name, replace(entry, mtime_ns=found.st_mtime_ns))
        return None if directory.origins.is_valid(policy, url, entry) else "the origin has another version"

    def _adopted(self, path: str, url: str, name: str) -> str | None:
        """Return a file with this name that the cache did not make: it is used if it is valid, and never deleted."""
        if not os.path.isfile(path) or self._directory().records.has_note(name):
            return None
        if self.validator is not None and not self.validator(path):
            raise SpecError(
                f"{path} has the name of a cached shard, but is not a tar archive, and the cache did not make it",
                Where(shard=url),
                hint="remove it yourself, or use another cache_dir",
            )
        counters.add("cache.hits")
        return path

    def _raise(self, fill: Fill, url: str) -> None:
        if isinstance(fill.error, DoesNotFit):
            raise StoreError(
                "the shard does not fit into the cache",
                Where(shard=url),
                hint=f"give it a cache_size larger than {self.limit}",
            )
        if fill.error is not None and not isinstance(fill.error, Stopped):
            raise fill.error

    def _directory(self) -> CacheDirectory:
        directory = self._directories.get(os.getpid())
        with disk_errors(self.folder):
            if directory is None:
                # `setdefault` is atomic: threads that open their first shards at once get the same one.
                directory = self._directories.setdefault(os.getpid(), CacheDirectory(self))
            directory.maintain(self.interval)
        return directory

    def _missed(self, url: str) -> None:
        counters.add("cache.misses")
        self._note("fetching", url)

    def _note(self, what: str, url: str) -> None:
        if self.verbose or config.read("WDS_VERBOSE_CACHE"):
            _log.info("%s %s in %s", what, redacted(url), self.folder)


class CacheDirectory:
    """The state of a cache in one process: never pickled, never shared with a forked child."""

    def __init__(self, cache: ShardCache) -> None:
        self.validator, self.opener = cache.validator, cache.opener
        self.records = Records(cache.folder)
        self.locks = Locks(self.records.notes)
        self.quota = Quota(self.records, self.locks, int(cache.limit))
        self._sweep()
        self.mutex = Mutex()
        self.fills: dict[str, Fill] = {}
        self.origins = Revalidation()

    def maintain(self, interval: float) -> None:
        """Make the directory again if it was removed, and remove files of killed processes every `interval` seconds."""
        self.records.make_folder()
        if time.monotonic() - self.swept > interval:
            self._sweep()

    def _sweep(self) -> None:
        self.swept = time.monotonic()
        if os.access(self.records.notes, os.W_OK):  # a read-only directory is good for what it has
            self.quota.sweep()
