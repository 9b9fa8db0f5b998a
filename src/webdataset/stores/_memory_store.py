"""Objects in the memory of this process, for tests, examples and notebooks: `memory://name`."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import IO, Any

from webdataset.errors import ShardNotFound, Where

from ._store import Stat, Store
from ._upload import SpooledUpload


class MemoryStore(Store):
    """A dict from address to bytes.

    >>> store = MemoryStore()
    >>> with store.open_write("memory://a") as stream:
    ...     _ = stream.write(b"hello")
    >>> store.open_read("memory://a", 1).read()
    b'ello'
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def open_read(self, url: str, start: int = 0) -> Any:
        stream = io.BytesIO(self._get(url))
        stream.seek(start)
        return stream

    def open_write(self, url: str) -> SpooledUpload:
        def send(spool: IO[bytes], size: int) -> None:
            self.objects[url] = spool.read()

        return SpooledUpload(send)

    def stat(self, url: str) -> Stat:
        data = self._get(url)
        return Stat(size=len(data), etag=hashlib.blake2b(data, digest_size=8).hexdigest())

    def list(self, prefix: str) -> Iterator[str]:
        return iter(sorted(url for url in self.objects if url.startswith(prefix)))

    def _get(self, url: str) -> bytes:
        try:
            return self.objects[url]
        except KeyError:
            raise ShardNotFound(
                "not found in the memory of this process", Where(shard=url), hint="write it first"
            ) from None
