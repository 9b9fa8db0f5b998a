"""Reading a shard while it is being fetched, by this process or another."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from webdataset.errors import StoreError, Where
from webdataset.stores import Stream, counters, open_read, pause, redacted

from ._fetch_shard import NoRoom, Stopped

if TYPE_CHECKING:
    from ._fetch_shard import Fill
    from ._records import Entry
    from ._shard_cache import ShardCache

# Between looks at what another process fetches: soon at first, then twenty times a second.
_SHORTEST, _LONGEST = 0.001, 0.05


class Follower(Stream):
    """The bytes of a shard as they arrive in the cache; goes on from the origin if the cache cannot hold it.

    Nothing here owns the download: whoever finds that nobody fetches takes it over from the last byte.
    """

    def __init__(self, cache: ShardCache, url: str, name: str) -> None:
        super().__init__()
        self._cache, self._url, self._name = cache, url, name
        self._descriptor: int | None = None
        self._version: tuple[str, str | None] | None = None
        self._origin: Any = None
        self._fill: Fill | None = cache.attach(url, name)
        self._wait = _SHORTEST

    def begin(self) -> None:
        """Wait for the first byte, so that a shard that cannot be had fails where it is opened."""
        try:
            self.peek()
        except BaseException:
            self.close()
            raise

    def fill(self, view: memoryview) -> int:
        count = self._available(view)
        return self._from_origin(view) if self._origin is not None else count

    def _available(self, view: memoryview) -> int:
        """The next bytes on the disk, waited for; nothing at the end, or when they must come from the origin."""
        while self._origin is None:
            count = self._from_disk(view)
            if count:
                self._wait = _SHORTEST
                return count
            entry = self._cache.published(self._url, self._name)
            if entry is None:
                self._await()
            elif self._at_the_end(entry):
                break
        return 0

    def close(self) -> None:
        if not self.closed:
            self._leave()
            self._forget_file()
            if self._origin is not None:
                self._origin.close()
        super().close()

    def _from_origin(self, view: memoryview) -> int:
        # Not readinto: a user's own opener may hand out less than a file.
        piece: bytes = getattr(self._origin, "read1", self._origin.read)(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def _from_disk(self, view: memoryview) -> int:
        try:
            if self._descriptor is None and not self._open():
                return 0
            assert self._descriptor is not None
            return os.preadv(self._descriptor, [view], self.position)
        except OSError as error:
            # A network file system may take an evicted file away under a reader: the origin still has it.
            if isinstance(error, StoreError) or error.errno not in {errno.ESTALE, errno.EIO}:
                raise
            self._go_to_origin()
            return 0

    def _open(self) -> bool:
        """Open the file that has the next byte: the published one, else the longest part."""
        path, version = self._cache.locate(self._url, self._name, self.position)
        if path is None or version is None:
            return False
        if self._version is not None and version != self._version:
            raise StoreError(
                "the object changed while it was read through the cache",
                Where(shard=redacted(self._url), offset=self.position),
                hint="read it again from the start",
            )
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # published or evicted between the look and the opening: look again
            return False
        self._version = version
        return True

    def _at_the_end(self, entry: Entry) -> bool:
        """The shard is published: either this is its end, or its file has more than the one we had open."""
        if entry.size == self.position and self._version in {None, (entry.url_hash, entry.version)}:
            self._version = (entry.url_hash, entry.version)
            return True
        self._forget_file()
        self._cache.intact(self._url, self._name)
        return False

    def _await(self) -> None:
        self._forget_file()
        if self._fill is None:
            self._fill = self._cache.attach(self._url, self._name)
        if self._fill is None:
            pause(self._wait)
            self._wait = min(self._wait * 2, _LONGEST)
            return
        self._fill.wait(self.position, timeout=1.0)
        if self._fill.finished:
            error = self._fill.error
            self._leave()
            if isinstance(error, NoRoom):
                self._go_to_origin()
            elif error is not None and not isinstance(error, Stopped):
                raise error

    def _go_to_origin(self) -> None:
        counters.add("cache.bypassed")
        self._leave()
        self._forget_file()
        self._origin = open_read(self._url, start=self.position)

    def _leave(self) -> None:
        fill, self._fill = self._fill, None
        if fill is not None:
            self._cache.detach(fill)

    def _forget_file(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
