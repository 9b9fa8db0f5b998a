"""Fetching one shard into the cache: one thread, in one process, while any number of readers follow."""

from __future__ import annotations

import errno
import os
import threading
import zlib
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from webdataset.errors import FormatError, StoreError, Where
from webdataset.stores import abandonable, counters, open_read, redacted, stat

from ._boot_id import machine
from ._download_bar import download_bar
from ._file_names import url_hash
from ._quota import STEP, fill_lock
from ._records import Claim, Entry, file_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._locks import Locks
    from ._quota import Room
    from ._records import Records

_PIECE = 1 << 20


class NoRoom(Exception):
    """The shard cannot fit: a message to the readers, who then read from the origin."""


class Stopped(Exception):
    """Nobody in this process reads the shard any more."""


@dataclass(frozen=True, slots=True)
class Place:
    """What filling needs to know about a cache directory."""

    records: Records
    locks: Locks
    room: Room
    validator: Callable[[str], Any] | None


class Fill:
    """Fetches a shard. The caller has taken its lock; the fill gives it back when it ends, however it ends."""

    def __init__(self, place: Place, url: str, name: str) -> None:
        self._place, self._url, self.name = place, url, name
        # The lock itself is what is taken: Ctrl-C inside Condition.__enter__, which is Python, would leave it taken.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._stop, self.finished = threading.Event(), False
        self.error: BaseException | None = None
        self.written = 0
        self.readers = 0
        self._thread = threading.Thread(target=self._run, name=f"webdataset-fill-{name}", daemon=True)
        self._thread.start()

    def wait(self, position: int, timeout: float) -> None:
        """Wait until there is a byte at `position`, or no more will come."""
        with self._lock:
            self._changed.wait_for(lambda: self.written > position or self.finished, timeout)

    def stop(self) -> None:
        """End soon; what was fetched stays for whoever reads the shard next."""
        self._stop.set()
        self._thread.join()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _run(self) -> None:
        try:
            with abandonable(self._stop):
                while not self._fetch():
                    pass
        except BaseException as error:
            self.error = error
        finally:
            self._abandon()
            self._place.locks.release(fill_lock(self.name))
            with self._lock:
                self.finished = True
                self._changed.notify_all()

    def _fetch(self) -> bool:
        """Whether the shard is there now; False when a part turned out to be of another version."""
        records = self._place.records
        if records.entry(self.name) is not None:
            return True  # published by somebody else between our look and our lock
        token, claim, offset = self._resume()
        if token is not None and claim is not None and claim.size == offset:
            self._publish(token, claim, self._checksum(token))
            return True
        with closing(open_read(self._url, start=offset)) as stream:
            if token is None or claim is None:
                token, claim = self._begin(stream)
                offset = 0
            elif getattr(stream, "version", None) != claim.version:
                records.remove_part(self.name, token)
                return False
            else:
                claim = replace(claim, process=os.getpid())
                records.write_claim(self.name, token, claim)
            self.written = offset
            counters.add("cache.fills")
            claim, checksum = self._copy(stream, token, claim)
        self._publish(token, claim, checksum)
        return True

    def _abandon(self) -> None:
        """What is left of an unfinished part has no owner now: nobody may follow it before it is taken over."""
        records = self._place.records
        for name, token in list(records.parts(self.name)):
            claim = records.claim(name, token)
            if claim is not None and claim.machine == machine() and claim.process == os.getpid():
                records.write_claim(name, token, replace(claim, process=0))

    def _resume(self) -> tuple[str | None, Claim | None, int]:
        """A part of the same version that a process of this machine left behind; other leftovers are removed."""
        records, best = self._place.records, None
        for name, token in list(records.parts(self.name)):
            claim = records.claim(name, token)
            if claim is None or claim.machine != machine() or claim.leased or self._place.locks.leased:
                if claim is None or claim.machine == machine():
                    records.remove_part(name, token)
                continue
            size = file_size(records.part(name, token))
            if best is not None or not size or claim.version is None or not self._still(claim):
                records.remove_part(name, token)
            else:
                best = (token, claim, size)
        return best or (None, None, 0)

    def _still(self, claim: Claim) -> bool:
        """Whether the origin still has what the part is of; asked before a byte is taken over."""
        return claim.url_hash == url_hash(self._url) and stat(self._url).etag == claim.version

    def _begin(self, stream: Any) -> tuple[str, Claim]:
        size: int | None = getattr(stream, "size", None)
        claim = Claim(
            url_hash=url_hash(self._url),
            version=getattr(stream, "version", None),
            size=size,
            reserved=STEP if size is None else size,
            machine=machine(),
            process=os.getpid(),
            leased=self._place.locks.leased,
        )
        token = self._place.room.begin(self.name, claim)
        if token is None:
            raise NoRoom
        return token, claim

    def _copy(self, stream: Any, token: str, claim: Claim) -> tuple[Claim, int]:
        checksum = self._checksum(token)
        read = getattr(stream, "read1", stream.read)
        with (
            open(self._place.records.part(self.name, token), "ab", buffering=0) as part,
            download_bar(self._url, claim.size) as bar,
        ):
            while piece := read(_PIECE):
                if self._stop.is_set():
                    raise Stopped
                if self.written + len(piece) > claim.reserved:
                    claim = self._grow(token, claim, self.written + len(piece))
                self._write(part.fileno(), piece, token)
                checksum = zlib.crc32(piece, checksum)
                if bar is not None:
                    bar.update(len(piece))
                self._place.locks.refresh(fill_lock(self.name))
            os.fsync(part.fileno())
        return claim, checksum

    def _grow(self, token: str, claim: Claim, needed: int) -> Claim:
        larger = self._place.room.grow(self.name, token, claim, max(needed, claim.reserved + STEP))
        if larger is None:
            self._place.records.remove_part(self.name, token)
            raise NoRoom
        return larger

    def _write(self, descriptor: int, piece: bytes, token: str) -> None:
        view = memoryview(piece)
        try:
            while view:
                count = os.write(descriptor, view)
                view = view[count:]
                with self._lock:
                    self.written += count
                    self._changed.notify_all()
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
                raise
            self._place.records.remove_part(self.name, token)
            raise StoreError(
                "the disk of the shard cache is full",
                Where(shard=redacted(self._url), offset=self.written),
                hint=f"free some space in {self._place.records.folder}, or give it a smaller cache_size",
            ) from error

    def _checksum(self, token: str) -> int:
        return file_checksum(self._place.records.part(self.name, token))

    def _publish(self, token: str, claim: Claim, checksum: int) -> None:
        """Validate, describe, rename: a reader finds the shard whole and described, or not at all."""
        records = self._place.records
        part = records.part(self.name, token)
        try:
            validate(self._place.validator, part, self._url)
        except BaseException:
            records.remove_part(self.name, token)
            raise
        found = os.stat(part)
        os.makedirs(os.path.dirname(records.data(self.name)), exist_ok=True)
        entry = Entry(claim.url_hash, redacted(self._url), found.st_size, claim.version, checksum, found.st_mtime_ns)
        records.write_entry(self.name, entry)
        os.rename(part, records.data(self.name))
        records.remove_claim(self.name, token)


def validate(validator: Callable[[str], Any] | None, path: str, url: str) -> None:
    """Ask the validator; what it refuses is not kept.

    >>> validate(lambda path: True, "a.tar", "https://h/a.tar")
    """
    if validator is not None and not validator(path):
        with open(path, "rb") as file:
            beginning = file.read(16).hex(" ")
        raise FormatError(
            f"what was downloaded is no tar archive (it starts with {beginning})",
            Where(shard=redacted(url)),
            hint="open the address by hand: it may be an error page; validator=None accepts anything",
        )


def file_checksum(path: str) -> int:
    """The CRC-32 of a file.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"hello")
    ...     file.flush()
    ...     file_checksum(file.name)
    907060870
    """
    checksum = 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            checksum = zlib.crc32(piece, checksum)
    return checksum
