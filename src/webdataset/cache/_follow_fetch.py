"""Reading a shard while it is being fetched, by this process or another."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any

from webdataset.errors import StoreError
from webdataset.read_methods import find_read1
from webdataset.stores import BytesRead, Stream, counters, is_strong

from ._disk_errors import disk_errors
from ._fetch_shard import DoesNotFit, Fill, Stopped
from ._locks import Wait

if TYPE_CHECKING:
    from ._shard_cache import ShardCache


class Follower(Stream):
    """The bytes of a shard as they arrive in the cache; read from the origin if the cache cannot hold the shard.

    The download belongs to no process: a follower that finds that no process is fetching continues it. Bytes of two
    files, or of a file and the origin, are joined only by the rule of `stores._same_object`.
    """

    def __init__(self, cache: ShardCache, url: str, name: str) -> None:
        super().__init__()
        self._cache, self._url, self._name = cache, url, name
        self._read_so_far = BytesRead(url)
        self._descriptor: int | None = None
        self._origin: Any = None
        self._ended = False
        self._fill: Fill | None = None  # for `close`, if `attach` raises
        self._wait = Wait()
        self._fill = cache.attach(url, name)

    def begin(self) -> None:
        """Wait for the first byte, so that a shard that cannot be read fails where it is opened."""
        try:
            self.peek()
        except BaseException:
            self.close()
            raise

    def await_copy(self, seconds: float) -> bool:
        """Wait for the end of the fetch, at most so many seconds; return whether it has ended in this process."""
        fill = self._fill
        if fill is not None:
            fill.wait(sys.maxsize, seconds)
        return fill is None or fill.finished

    def fill(self, view: memoryview) -> int:
        count = 0
        with disk_errors(self._cache.folder, self._url):
            while not count and not self._ended:
                if self._origin is not None:
                    count = self._from_origin(view)
                    self._ended = not count
                else:
                    count = self._from_disk(view)
        self._read_so_far.add(view[:count])
        return count

    def close(self) -> None:
        if not self.closed:
            self._close_file()
            if self._origin is not None:
                self._origin.close()
            super().close()
            self._leave()

    def _from_origin(self, view: memoryview) -> int:
        piece = find_read1(self._origin)(len(view)) or b""
        view[: len(piece)] = piece
        return len(piece)

    def _from_disk(self, view: memoryview) -> int:
        """Read the next bytes in the cache; if there are none, wait, find the end, or continue from the origin."""
        try:
            if self._descriptor is not None or self._open():
                assert self._descriptor is not None
                count = os.preadv(self._descriptor, [view], self.position)
                if count:
                    self._wait = Wait()
                    return count
            self._look_again()
        except OSError as error:
            # A network file system may remove an evicted file although it is open: the origin still has it.
            if isinstance(error, StoreError) or error.errno not in {errno.ESTALE, errno.EIO}:
                raise
            self._go_to_origin()
        return 0

    def _open(self) -> bool:
        """Open the file that has the next byte: the published one, else the longest part."""
        path, version = self._cache.locate(self._url, self._name, self.position)
        if path is None:
            return False
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # published or evicted before it was opened: look it up again
            return False
        if self._cache.locate(self._url, self._name, self.position)[1] != version:  # or replaced
            self._close_file()
            return False
        read = self._read_so_far
        read.check(version, None, self.position if is_strong(version) else 0)
        if self.position and not is_strong(version):
            with os.fdopen(os.dup(self._descriptor), "rb", buffering=0) as file:
                file.seek(0)
                self._compare(0, file)
        return True

    def _compare(self, offset: int, source: Any) -> None:
        """Read what was read before again, from `offset` on, and compare."""
        if offset + self._read_so_far.reread(offset, source.read) < self.position:
            raise StoreError("the shard is shorter than before", hint="read it again from the start")

    def _look_again(self) -> None:
        """Find out why there is no byte at this position: wait for it, end, or open another file."""
        entry = self._cache.published(self._url, self._name)
        if entry is None:
            self._await()
        elif self._descriptor is not None and _is_same_file(self._descriptor, self._cache.path(self._name)):
            size = os.fstat(self._descriptor).st_size
            if size != entry.size:
                raise StoreError(
                    f"expected {entry.size} bytes in the cache, got {size}", hint="remove the damaged copy"
                )
            self._ended = size == self.position  # if not, it has grown in the meantime
        else:
            self._close_file()
            if entry.size == self.position and self._open():
                self._ended = True

    def _await(self) -> None:
        if self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0:
            self._close_file()  # the part was removed: whatever comes now is in another file
        if self._fill is None:
            self._fill = self._cache.attach(self._url, self._name)
        if self._fill is None:
            if not self._wait.once():  # the other process hangs
                self._go_to_origin()
            return
        self._fill.wait(self.position, timeout=1.0)
        if self._fill.finished:
            error = self._fill.error
            self._leave()
            if isinstance(error, DoesNotFit):
                self._go_to_origin()
            elif error is not None and not isinstance(error, Stopped):
                raise error

    def _go_to_origin(self) -> None:
        counters.add("cache.bypassed")
        self._leave()
        self._close_file()
        read = self._read_so_far
        start = max(0, read.join_at - 1)  # at the end of the object itself, a server does not say its version
        self._origin = self._cache.opener(self._url, start=start)
        read.check(getattr(self._origin, "version", None), getattr(self._origin, "size", None), start)
        self._compare(start, self._origin)

    def _leave(self) -> None:
        fill, self._fill = self._fill, None
        if fill is not None:
            self._cache.detach(fill)

    def _close_file(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _is_same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
