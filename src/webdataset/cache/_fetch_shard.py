"""Fetching one shard into the cache: one thread, in one process, while any number of readers follow."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from webdataset.errors import FormatError, StoreError, Where
from webdataset.mutex import Mutex
from webdataset.read_methods import find_read1
from webdataset.stores import abandonable, counters, is_strong, redacted, stat

from ._disk_errors import disk_errors
from ._download_bar import download_bar
from ._file_names import url_hash
from ._machine_id import machine
from ._quota import STEP
from ._records import Claim, Entry, file_size, fill_lock

if TYPE_CHECKING:
    from ._shard_cache import CacheDirectory

_PIECE = 1 << 20


class DoesNotFit(Exception):
    """The shard does not fit into the cache: its readers then read from the origin."""


class Stopped(Exception):
    """No reader in this process needs the shard any more."""


class Fill:
    """Fetches a shard in a thread. The caller has acquired its lock; the fill releases it when it ends, always."""

    def __init__(self, directory: CacheDirectory, url: str, name: str) -> None:
        self._directory, self._url, self.name = directory, url, name
        # The lock itself is taken, not the condition: Ctrl-C inside Condition.__enter__, which is Python code, would
        # leave it locked.
        self._lock = Mutex()
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
        """End soon; what was fetched is kept for the next reader of the shard."""
        self._stop.set()
        self._thread.join()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _run(self) -> None:
        for step in (self._fetch, self._mark_parts_unowned, self._release):
            try:
                with disk_errors(self._directory.records.folder, self._url), abandonable(self._stop):
                    step()
            except BaseException as error:  # readers raise it; the lock is released in any case
                self.error = self.error or error
        with self._lock:
            self.finished = True
            self._changed.notify_all()

    def _release(self) -> None:
        self._directory.locks.release(fill_lock(self.name))

    def _fetch(self) -> None:
        if self._directory.records.entry(self.name) is not None:
            return  # published by another process before the lock was acquired
        left = self._part_of_ended_process()
        if left is None or not self._continue(*left):
            self._begin()

    def _mark_parts_unowned(self) -> None:
        """Mark unfinished parts of this process: no reader may follow one before its version is compared again."""
        records = self._directory.records
        for name, token in list(records.parts(self.name)):
            claim = records.claim(name, token)
            if claim is not None and claim.machine == machine() and claim.process == os.getpid():
                records.write_claim(name, token, replace(claim, process=0))

    def _part_of_ended_process(self) -> tuple[str, Claim, int] | None:
        """Return a part that can be continued; remove other parts of processes that have ended."""
        records, best = self._directory.records, None
        for name, token in list(records.parts(self.name)):
            claim = records.claim(name, token)
            if claim is not None and self._may_be_written(claim):
                continue
            size = file_size(records.part(name, token))
            if best is None and size and claim is not None and self._can_continue(claim):
                best = (token, claim, size)
            else:
                records.remove_part(name, token)
        return best

    def _may_be_written(self, claim: Claim) -> bool:
        """Whether another process may be writing a part, although we hold the lock of the shard.

        On this machine the lock is the proof that none does: a process with that number may be another one by now, or
        one that was killed and that its parent has not waited for. Without locks the number is all there is.
        """
        soft = self._directory.locks.soft
        return claim.machine != machine() or (soft and claim.is_live and claim.process != os.getpid())

    def _can_continue(self, claim: Claim) -> bool:
        """The rule of `stores._same_object`: only under a strong version, which the origin still has."""
        if claim.url_hash != url_hash(self._url) or not is_strong(claim.version) or self._directory.locks.soft:
            return False
        return stat(self._url).etag == claim.version

    def _continue(self, token: str, claim: Claim, offset: int) -> bool:
        """Fetch the rest of a part; False if the origin has another version by now."""
        records = self._directory.records
        if claim.size == offset:
            self._publish(token, claim, self._checksum(token))
            return True
        with closing(self._directory.opener(self._url, start=offset)) as stream:
            if getattr(stream, "version", None) != claim.version:
                records.remove_part(self.name, token)
                return False
            claim = replace(claim, process=os.getpid())
            records.write_claim(self.name, token, claim)
            self.written = offset
            self._copy(stream, token, claim)
        return True

    def _begin(self) -> None:
        with closing(self._directory.opener(self._url)) as stream:
            size: int | None = getattr(stream, "size", None)
            claim = Claim(
                url_hash=url_hash(self._url),
                version=getattr(stream, "version", None),
                size=size,
                reserved=STEP if size is None else size,
                machine=machine(),
                process=os.getpid(),
            )
            token = self._directory.quota.begin(self.name, claim)
            if token is None:
                raise DoesNotFit
            self._copy(stream, token, claim)

    def _copy(self, stream: Any, token: str, claim: Claim) -> None:
        """Append the rest of the stream to the part, and publish it. A part that is not complete stays."""
        counters.add("cache.fills")
        checksum = self._checksum(token)
        read = find_read1(stream)
        with (
            open(self._directory.records.part(self.name, token), "ab", buffering=0) as part,
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
            os.fsync(part.fileno())
        self._publish(token, claim, checksum)

    def _grow(self, token: str, claim: Claim, needed: int) -> Claim:
        larger = self._directory.quota.grow(self.name, token, claim, max(needed, claim.reserved + STEP))
        if larger is None:
            self._directory.records.remove_part(self.name, token)
            raise DoesNotFit
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
        except OSError:
            with suppress(OSError):  # free the disk
                self._directory.records.remove_part(self.name, token)
            raise

    def _checksum(self, token: str) -> int:
        return file_checksum(self._directory.records.part(self.name, token))

    def _publish(self, token: str, claim: Claim, checksum: int) -> None:
        """Validate, describe, rename: a reader finds the shard complete and described, or not at all."""
        records = self._directory.records
        part, data = records.part(self.name, token), records.data(self.name)
        try:
            validate(self._directory.validator, part, self._url)
        except BaseException:
            records.remove_part(self.name, token)
            raise
        found = os.stat(part)
        if claim.size is not None and found.st_size != claim.size:
            records.remove_part(self.name, token)
            raise StoreError(
                f"expected {claim.size} bytes, {found.st_size} are in the cache",
                Where(shard=self._url),
                hint="read it again; if it happens again, check the disk of the cache",
            )
        os.makedirs(os.path.dirname(data), exist_ok=True)
        entry = Entry(claim.url_hash, redacted(self._url), found.st_size, claim.version, checksum, found.st_mtime_ns)
        records.write_entry(self.name, entry)
        os.rename(part, data)
        records.remove_claim(self.name, token)


def validate(validator: Callable[[str], Any] | None, path: str, url: str) -> None:
    """Call the validator; a file that it refuses is not kept.

    >>> validate(lambda path: True, "a.tar", "https://h/a.tar")
    """
    if validator is not None and not validator(path):
        with open(path, "rb") as file:
            beginning = file.read(16).hex(" ")
        raise FormatError(
            f"the download is not a tar archive (it starts with {beginning})",
            Where(shard=url),
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
