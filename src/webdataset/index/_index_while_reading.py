"""Build the index of a shard while its samples are read, and store it for the next time.

No additional byte is read. An index is stored only of a shard that was read from its first byte
to its end without a failure; it is the one that `build_index` would give.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from webdataset import stores
from webdataset.errors import EncodingError, SpecError, StoreError
from webdataset.handlers import Handler
from webdataset.redact import hides_secrets, redacted
from webdataset.tar import Run

from ._build_index import IndexBuilder
from ._index_location import index_url, save_index
from ._shard_index import ShardIndex

_log = logging.getLogger(__name__)

# Directories that could not be written to; logged once per process, not once per shard.
_refused: set[str] = set()


@hides_secrets
@dataclass(frozen=True)
class StoreIndexes:
    """Stores the indexes of shards that are read to their end.

    >>> from webdataset import tar
    >>> indexes = StoreIndexes("memory://doc-store-index/indexes")
    >>> growing = indexes.begin("https://example.org/a.tar")
    >>> for run in tar.read_runs(tar.encode_header("a.txt", 3) + b"abc" + tar.padding(3) + tar.END_OF_ARCHIVE):
    ...     growing.add(run)
    >>> growing.store()
    'memory://doc-store-index/indexes/a-39bb47b8656c6c6d.idx'
    >>> indexes.begin("https://example.org/a.tar") is None
    True

    Args:
        location: a directory or bucket for the indexes; None is next to the shards, if those are local.
    """

    location: str | None = None

    def begin(self, url: str) -> GrowingIndex | None:
        """A builder for a shard that is being read; None if its index exists or cannot be stored."""
        try:
            where = index_url(url, self.location)
        except SpecError:
            return None  # an index cannot be stored next to a command
        if (self.location is None and stores.is_local(url) is None) or self._home(where) in _refused:
            return None
        return None if _is_known(url, where) else GrowingIndex(self, url)

    def store(self, index: ShardIndex, url: str) -> str | None:
        """Store the index of a shard and return its address; None if it cannot be stored, which is not an error."""
        try:
            return save_index(index, url, self.location)
        except (StoreError, OSError) as error:
            self._refuse(url, error)
        except (EncodingError, SpecError) as error:
            _log.info("%s has no index: %s", redacted(url), error)
        return None

    def _refuse(self, url: str, error: Exception) -> None:
        """Remember a directory that cannot be written to, and log it the first time."""
        home = self._home(index_url(url, self.location))
        if home not in _refused:
            _refused.add(home)
            _log.warning("indexes stay in memory: they cannot be stored in %s (%s)", redacted(home) or ".", error)

    @staticmethod
    def _home(where: str) -> str:
        return where.rpartition("/")[0]


class GrowingIndex:
    """The index of one shard that is being read."""

    def __init__(self, indexes: StoreIndexes, url: str) -> None:
        self._indexes, self._url = indexes, url
        self._builder = IndexBuilder()
        self._failed = False

    def dropped_on_failure(self, handler: Handler) -> Handler:
        """Return the handler, changed so that no index is stored once it was called."""

        def noted(error: Exception) -> bool | None:
            self._failed = True
            return handler(error)

        return noted

    def add(self, run: Run) -> None:
        """Add the next members of the shard."""
        if not self._failed:
            self._builder.add_run(run)

    def store(self) -> str | None:
        """Store the index of the shard, which was read to its end; return its address, None if it cannot be stored."""
        return None if self._failed else self._indexes.store(self._builder.finish(), self._url)


def _is_known(url: str, where: str) -> bool:
    """Whether there is an index that is not older than its shard, as far as that is known without reading them."""
    path, shard = stores.is_local(where), stores.is_local(url)
    if path is not None and shard is not None:
        try:
            return Path(path).stat().st_mtime_ns >= Path(shard).stat().st_mtime_ns
        except OSError:
            return False
    try:
        stores.stat(where)
    except (StoreError, OSError):
        return False
    return True
