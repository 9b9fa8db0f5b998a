"""The bytes of a shard that is read as a whole, compared with its description while they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from webdataset import config
from webdataset.errors import StaleIndex, Where
from webdataset.read_methods import Watched

from ._description import ShardEntry


class VerifyShards:
    """Compares the shards of a description with what it says about them: size, and MD5 if `WDS_VERIFY_MD5` is set.

    Only a stream that is read from its first to its last byte can be compared. Single samples, and a shard that is
    resumed in the middle, are not.

    >>> import io
    >>> stream = VerifyShards([ShardEntry("a.tar", 1, filesize=2048)]).stream("a.tar", io.BytesIO(bytes(1024)))
    >>> while stream.read(512):
    ...     pass
    Traceback (most recent call last):
    webdataset.errors.StaleIndex: expected a shard of 2048 bytes, got 1024 – a.tar – ...
    """

    def __init__(self, entries: Iterable[ShardEntry]) -> None:
        self._entries = {entry.url: entry for entry in entries if entry.filesize is not None or entry.md5sum}

    def stream(self, url: str, stream: Any) -> Any:
        """The same stream; its end is an error if the bytes were not the described ones."""
        entry = self._entries.get(url)
        return stream if entry is None else Watched(stream, _Comparison(entry).see)


class _Comparison:
    """Counts and hashes the bytes of a shard, and compares them with its description at their end."""

    def __init__(self, entry: ShardEntry) -> None:
        self._entry = entry
        self._size = 0
        hashed = bool(entry.md5sum) and config.read("WDS_VERIFY_MD5")
        self._md5 = hashlib.md5(usedforsecurity=False) if hashed else None  # what wids descriptions hold

    def see(self, piece: bytes | memoryview) -> None:
        """Note the next bytes; none mean the end. A stream that is closed before its end is not compared."""
        self._size += len(piece)
        if self._md5 is not None:
            self._md5.update(piece)
        expected = self._entry.filesize
        if not piece or (expected is not None and self._size > expected):
            self._entry.check(self._size)
            self._check_md5()

    def _check_md5(self) -> None:
        if self._md5 is not None and (found := self._md5.hexdigest()) != str(self._entry.md5sum).lower():
            raise StaleIndex(
                f"expected a shard with MD5 {self._entry.md5sum}, got {found}",
                Where(shard=self._entry.url),
                hint="describe the dataset again, or download the shard again",
            )
