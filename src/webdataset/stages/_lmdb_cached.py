"""Samples kept in an LMDB store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from webdataset.arguments import require_count
from webdataset.errors import SpecError, StateError, StoreError, Where
from webdataset.mutex import Mutex
from webdataset.optional import require

from ._record_replay import OnDisk, Pickler, Played, RecordingLock, Store, play

# Written with the last samples. The public library has another marker, so its stores, which are ordered by key and not
# by number, are recorded anew and never misread.
_COMPLETE = b"complete: samples by number"


@dataclass(frozen=True, repr=False)
class LMDBCached(OnDisk):
    """Keep all samples in an LMDB store during the first complete pass; later passes come from there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stage = LMDBCached(folder + "/cache", map_size=1e8)
    ...     list(stage("abc")), list(stage("never read"))
    (['a', 'b', 'c'], ['a', 'b', 'c'])

    The order is that of the recorded pass. Each worker has a store of its own, `fname-1-of-4` and so on, and plays back
    what it recorded. A recording counts when it is complete, so a program that is killed begins it anew.

    Samples may hold what is safe to unpickle (numbers, strings, bytes, containers, arrays, tensors), unless `pickler`
    says otherwise.

    Args:
        fname: the directory of the store.
        map_size: how large the store may become, in bytes; on most file systems only what is used takes space.
        pickler: a module like `pickle`, which then may run code found in the store.
        chunksize: how many samples are written in one transaction.
    """

    verb: ClassVar[str] = "LMDBCached"
    keeps_count: ClassVar[bool] = True
    fname: str | Path
    map_size: float = 1e12
    pickler: Any = None
    chunksize: int = 500

    def __post_init__(self) -> None:
        if not isinstance(self.fname, str | os.PathLike):
            raise SpecError(f"LMDBCached({self.fname!r}): give the name of a directory")
        require_count("LMDBCached", "map_size", self.map_size, least=1)
        require_count("LMDBCached", "chunksize", self.chunksize, least=1)

    def run(self, items: Iterator[Any], at: Played, /) -> Iterator[Any]:
        """Play back or record."""
        return play(items, at, self.store(at.during.world.part))

    def store(self, part: tuple[int, ...]) -> _InLmdb:
        """The recording of a part."""
        path = str(self.fname) if part == (0, 1) else "{}-{}-of-{}".format(self.fname, *part)
        return _InLmdb(path, int(self.map_size), Pickler(self.pickler), self.chunksize)


class _Environments:
    """Open stores: LMDB forbids a process to open a store twice, and a forked child to use those of its parent."""

    def __init__(self) -> None:
        self._open: dict[str, list[Any]] = {}
        self._lock = Mutex()
        os.register_at_fork(after_in_child=self._forget)

    def acquire(self, path: str, map_size: int) -> Any:
        """The store of this path, opened if it is not open yet."""
        lmdb = require("lmdb", extra="lmdb", why="to cache samples with LMDBCached")
        key = os.path.realpath(path)
        with self._lock:
            if key not in self._open:
                try:
                    self._open[key] = [lmdb.open(path, map_size=map_size, readahead=False), 0]
                except (lmdb.Error, OSError) as error:
                    raise StoreError(f"the cache cannot be opened: {error}", Where(shard=path)) from error
            self._open[key][1] += 1
            return self._open[key][0]

    def release(self, path: str) -> None:
        """Close it if this was the last user."""
        key = os.path.realpath(path)
        with self._lock:
            self._open[key][1] -= 1
            if self._open[key][1] == 0:
                self._open.pop(key)[0].close()

    def _forget(self) -> None:
        inherited, self._open, self._lock = self._open, {}, Mutex()
        for environment, _ in inherited.values():
            environment.close()


_environments = _Environments()


class _InLmdb(Store):
    """The recording of one part."""

    def __init__(self, path: str, map_size: int, pickler: Pickler, chunksize: int) -> None:
        self._path, self._map_size, self._chunksize = path, map_size, chunksize
        self._pickler = pickler
        self._lock = RecordingLock(f"{path}/recording.lock")
        self._waiting: list[tuple[bytes, bytes]] = []
        self._count = 0

    def open(self) -> None:
        self._environment = _environments.acquire(self._path, self._map_size)

    def close(self) -> None:
        try:
            self._flush()
        finally:
            self._lock.release()
            _environments.release(self._path)

    def complete(self) -> int | None:
        with self._transaction() as transaction:
            count = transaction.get(_COMPLETE)
        return None if count is None else int(count)

    def read(self, number: int) -> Any:
        with self._transaction() as transaction:
            data = transaction.get(_name(number))
        if data is None:
            raise StateError(f"sample {number} is not in the cache", Where(shard=self._path))
        return self._pickler.loads(data)

    def begin(self, taken: int) -> bool:
        if not self._lock.acquire():
            return False
        if taken:
            with self._transaction() as transaction:
                has_last = transaction.get(_name(taken - 1)) is not None
        with self._transaction(write=True) as transaction:
            transaction.delete(_COMPLETE)
            if not taken:
                transaction.drop(self._environment.open_db(txn=transaction), delete=False)
        self._count = taken
        return not taken or has_last

    def append(self, sample: Any) -> None:
        self._waiting.append((_name(self._count), self._pickler.dumps(sample)))
        self._count += 1
        if len(self._waiting) >= self._chunksize:
            self._flush()

    def finish(self, *, whole: bool) -> None:
        self._flush((_COMPLETE, b"%d" % self._count))

    def _flush(self, *more: tuple[bytes, bytes]) -> None:
        rows, self._waiting = [*self._waiting, *more], []
        if rows:
            with self._transaction(write=True) as transaction:
                for name, data in rows:
                    transaction.put(name, data)

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Any]:
        import lmdb

        where = Where(shard=self._path)
        try:
            with self._environment.begin(write=write) as transaction:
                yield transaction
        except lmdb.MapFullError as error:
            full = f"the cache is full at {self._map_size:,} bytes"
            raise StoreError(full, where, hint="give a larger map_size") from error
        except lmdb.Error as error:
            raise StoreError(f"the cache cannot be read or written: {error}", where, hint="check its disk") from error


def _name(number: int) -> bytes:
    """Return a number as bytes, which sort like the numbers."""
    return number.to_bytes(8, "big")
