"""A directory of shards, shared by all processes that use it."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from webdataset import config
from webdataset.errors import AccessDenied, SpecError, StoreError, Where
from webdataset.stores import counters, process_lives, redacted

from ._boot_id import machine
from ._fetch_shard import Fill, NoRoom, Place, Stopped, file_checksum
from ._file_names import safe_name, url_hash, url_to_hashed_name
from ._follow_fetch import Follower
from ._locks import locks_of
from ._quota import Room, fill_lock
from ._records import Claim, Entry, Records, file_size
from ._sniff import check_tar_format

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdataset.stores import Stream

_log = logging.getLogger(__name__)


@dataclass
class ShardCache:
    """Shards on the local disk, each fetched once however many processes ask for it, and read while it is fetched.

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
        folder: Where; `~` is expanded, and it is made if need be.
        limit: Bytes, counting what is on its way; negative for no limit.
        url_to_name: The file name for an address; by default a hash of the full address and its last component.
        validator: A function of a path; what it does not approve of is not kept.
        interval: Seconds between two looks for what killed processes left behind.
        verbose: Log hits and downloads at INFO, as `WDS_VERBOSE_CACHE=1` does.
    """

    folder: str
    limit: int = -1
    url_to_name: Callable[[str], str] = url_to_hashed_name
    validator: Callable[[str], Any] | None = check_tar_format
    interval: float = 30.0
    verbose: bool = False
    _runtime: _Runtime | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.url_to_name) or not (self.validator is None or callable(self.validator)):
            raise SpecError("url_to_name and validator must be functions", hint="leave them out for the defaults")
        if not isinstance(self.limit, int | float):
            raise SpecError(f"the cache size {self.limit!r} is not a number", hint="give bytes, or -1 for no limit")
        self.folder = os.path.abspath(os.path.expanduser(os.fspath(self.folder)))

    def open(self, url: str) -> Stream | IO[bytes]:
        """A stream of the shard: from the disk if it is there, else as it arrives."""
        name = self.name(url)
        path = self.intact(url, name)
        if path is not None:
            with suppress(FileNotFoundError):  # evicted by another process since we looked: a miss like any other
                return open(path, "rb")
        counters.add("cache.misses")
        self._note("fetching", url)
        stream = Follower(self, url, name)
        stream.begin()
        return stream

    def get(self, url: str) -> str:
        """The path of the shard, after it was fetched if need be."""
        name = self.name(url)
        while True:
            path = self.intact(url, name)
            if path is not None:
                return path
            fill = self.attach(url, name)
            if fill is None:
                with Follower(self, url, name) as stream:  # somebody else fetches it: follow to the end
                    while stream.read1():
                        pass
                continue
            fill.join()
            self.detach(fill)
            self._raise(fill, url)

    def forget(self, url: str) -> None:
        """Remove the shard, so that it is fetched again."""
        name = self.name(url)
        with self._at().locks.holding("room"):
            if self._at().records.entry(name) is not None:
                self._at().records.forget(name)

    def name(self, url: str) -> str:
        """The file name that the shard has, or will have."""
        return safe_name(self.url_to_name(url), url)

    def intact(self, url: str, name: str) -> str | None:
        """The path of the published shard, if it is what was published; a damaged one is removed."""
        at = self._at()
        path = at.records.data(name)
        entry = self.published(url, name)
        if entry is None:
            return self._adopted(path, url, name)
        try:
            damaged = self._damaged(path, entry, name)
        except FileNotFoundError:  # evicted by another process since we looked
            return None
        if damaged:
            _log.warning("the cached copy of %s was damaged; fetching it again", redacted(url))
            counters.add("cache.damaged")
            self.forget(url)
            return None
        at.records.touch(name)
        counters.add("cache.hits")
        self._note("found", url)
        return path

    def published(self, url: str, name: str) -> Entry | None:
        """The entry of the shard; an error if another address has the same name."""
        entry = self._at().records.entry(name)
        if entry is not None and entry.url_hash != url_hash(url):
            raise SpecError(
                f"url_to_name gives the name {name!r} to two addresses: {entry.url}",
                Where(shard=redacted(url)),
                hint="leave url_to_name out: the default tells all addresses apart",
            )
        return entry

    def locate(self, url: str, name: str, position: int) -> tuple[str | None, tuple[str, str | None] | None]:
        """The file that has the byte at `position`, and which version of the shard it is of."""
        records = self._at().records
        entry = self.published(url, name)
        if entry is not None:
            return records.data(name), (entry.url_hash, entry.version)
        longest = position
        found: tuple[str | None, tuple[str, str | None] | None] = (None, None)
        for _, token in records.parts(name):
            claim, path = records.claim(name, token), records.part(name, token)
            size = file_size(path)
            if claim is not None and _live(claim) and size > longest:
                longest, found = size, (path, (claim.url_hash, claim.version))
        return found

    def attach(self, url: str, name: str) -> Fill | None:
        """The fill of this process, begun if nobody anywhere fetches the shard; None if another process does."""
        at = self._at()
        with at.mutex:
            fill = at.fills.get(name)
            if fill is None or fill.finished:
                if not at.locks.try_acquire(fill_lock(name)):
                    return None
                fill = at.fills[name] = Fill(at.place(self.validator), url, name)
            fill.readers += 1
            return fill

    def detach(self, fill: Fill) -> None:
        """One reader less; without readers a fill stops."""
        at = self._at()
        with at.mutex:
            fill.readers -= 1
            if fill.readers or at.fills.get(fill.name) is not fill:
                return
            del at.fills[fill.name]
        fill.stop()
        if fill.error is None:
            entry = at.records.entry(fill.name)
            if entry is not None:
                at.verified[fill.name] = entry.mtime_ns

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runtime": None}

    def _damaged(self, path: str, entry: Entry, name: str) -> bool:
        """Compare size and time always, the checksum once per process and whenever the time differs."""
        found = os.stat(path)
        if found.st_size != entry.size:
            return True
        verified = self._at().verified
        if found.st_mtime_ns == entry.mtime_ns and verified.get(name) == entry.mtime_ns:
            return False
        if file_checksum(path) != entry.checksum:
            return True
        verified[name] = entry.mtime_ns
        return False

    def _adopted(self, path: str, url: str, name: str) -> str | None:
        """A file that somebody else put there under this name is used, if it is valid, and never deleted."""
        if not os.path.isfile(path) or self._at().records.has_note(name):
            return None
        if self.validator is not None and not self.validator(path):
            raise SpecError(
                f"{path} is in the way: it is no tar archive, and the cache did not make it",
                Where(shard=redacted(url)),
                hint="remove it yourself, or use another cache_dir",
            )
        counters.add("cache.hits")
        return path

    def _raise(self, fill: Fill, url: str) -> None:
        if isinstance(fill.error, NoRoom):
            raise StoreError(
                "the shard does not fit into the cache",
                Where(shard=redacted(url)),
                hint=f"give it a cache_size larger than {self.limit}",
            )
        if fill.error is not None and not isinstance(fill.error, Stopped):
            raise fill.error

    def _at(self) -> _Runtime:
        runtime = self._runtime
        if runtime is None or runtime.process != os.getpid():
            runtime = self._runtime = _Runtime(self.folder, int(self.limit))
        runtime.sweep_now_and_then(self.interval)
        return runtime

    def _note(self, what: str, url: str) -> None:
        if self.verbose or config.read("WDS_VERBOSE_CACHE"):
            _log.info("%s %s in %s", what, redacted(url), self.folder)


class _Runtime:
    """What a cache is in one process: never pickled, never shared with a forked child."""

    def __init__(self, folder: str, limit: int) -> None:
        self.process = os.getpid()
        try:
            self.records = Records(folder)
            self.locks = locks_of(self.records.notes)
            self.room = Room(self.records, self.locks, limit)
            self.room.sweep()
        except OSError as error:
            raise _unusable(folder, error) from error
        self.swept = time.monotonic()
        self.mutex = threading.Lock()
        self.fills: dict[str, Fill] = {}
        self.verified: dict[str, int] = {}

    def place(self, validator: Callable[[str], Any] | None) -> Place:
        return Place(self.records, self.locks, self.room, validator)

    def sweep_now_and_then(self, interval: float) -> None:
        if time.monotonic() - self.swept > interval:
            self.swept = time.monotonic()
            self.room.sweep()


def _live(claim: Claim) -> bool:
    """Whether somebody vouches that the part is of the version that the origin has now."""
    return claim.machine != machine() or process_lives(claim.process)


def _unusable(folder: str, error: OSError) -> AccessDenied:
    return AccessDenied(
        f"the cache directory cannot be used: {error.strerror or error}",
        Where(shard=folder),
        hint="give a cache_dir (or WDS_CACHE) that this user may write to",
    )
