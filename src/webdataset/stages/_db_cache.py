"""Samples kept in an SQLite file."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from webdataset.arguments import require_count
from webdataset.errors import FormatError, SpecError, StateError, StoreError, Where

from ._record_replay import OnDisk, Pickler, Played, RecordingLock, Store, log, play

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from webdataset.flow import Pass

# A transaction waits for the disk (about 5 ms); every 500 samples that is 10 µs a sample.
_CHUNK = 500
# Seconds that a worker waits for the others to write, which takes milliseconds.
_LONGEST_WAIT_S = 120

_TABLES = """
CREATE TABLE IF NOT EXISTS recorded (part TEXT, number INTEGER, sample BLOB, PRIMARY KEY (part, number));
CREATE TABLE IF NOT EXISTS complete (part TEXT PRIMARY KEY, samples INTEGER, whole INTEGER);
"""


@dataclass(frozen=True, repr=False, eq=False)
class DBCache(OnDisk):
    """Keep the first `size` samples in an SQLite file; once it is complete, they come from there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stage = DBCache(folder + "/cache.db", 2)
    ...     list(stage("abc")), list(stage("never read"))
    (['a', 'b'], ['a', 'b'])

    Every pass has the same samples: the first, which reads and records them, ends after `size` samples too. Workers
    share the file; each records and plays back its own part, and `size` is divided among them. A recording counts when
    it is complete, so a program that is killed begins it anew. It does not know where its samples came from: use
    another file for another dataset, and another number of workers records its own. Beside it is an empty lock file
    for each worker.

    Samples may hold what is safe to unpickle (numbers, strings, bytes, containers, arrays, tensors), unless `pickler`
    says otherwise.

    Args:
        dbname: the file.
        size: how many samples, over all workers; None for all.
        source: a dataset; with it, the object can be iterated by itself.
        shuffle: play back in a random order, another one each epoch.
        verbose: log when a pass is played back.
        pickler: a module like `pickle`, which then may run code found in the file.
    """

    verb: ClassVar[str] = "DBCache"
    cuts: ClassVar[bool] = True
    dbname: str | Path
    size: int | None = None
    source: Iterable[Any] | None = field(default=None, repr=False)
    shuffle: bool = False
    verbose: bool = True
    pickler: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.dbname, str | os.PathLike):
            raise SpecError(f"DBCache({self.dbname!r}): give the name of a file")
        if self.size is not None:
            self._set(size=require_count("DBCache", "size", self.size, least=0))
        if self.source is not None and not hasattr(self.source, "__iter__"):
            raise SpecError(f"DBCache(source={self.source!r}): the source cannot be iterated")

    def __iter__(self) -> Iterator[Any]:
        if self.source is None:
            raise SpecError("DBCache was given no source", hint="use it as a stage, or DBCache(dbname, size, source)")
        return self(self.source)

    def run(self, items: Iterator[Any], at: Played, /) -> Iterator[Any]:
        """Play back or record."""
        which, parts = at.during.world.part
        limit = None if self.size is None else self.size * (which + 1) // parts - self.size * which // parts
        order = _Shuffled(at.during) if self.shuffle else range
        return play(items, at, self.store((which, parts), limit), limit=limit, order=order)

    def store(self, part: tuple[int, ...], limit: int | None = None) -> _InDatabase:
        """The recording of a part."""
        return _InDatabase(str(self.dbname), "{}-of-{}".format(*part), limit, Pickler(self.pickler), self.verbose)


@dataclass(frozen=True)
class _Shuffled:
    """The numbers of a recording in this pass's order."""

    during: Pass

    def __call__(self, count: int) -> list[int]:
        order = list(range(count))
        self.during.rng("DBCache", *self.during.world.part).shuffle(order)
        return order


class _InDatabase(Store):
    """The recording of one part."""

    def __init__(self, path: str, part: str, limit: int | None, pickler: Pickler, verbose: bool) -> None:
        self._path, self._part, self._limit, self._verbose = path, part, limit, verbose
        self._pickler = pickler
        self._lock = RecordingLock(f"{path}.{part}.lock")
        self._waiting: list[tuple[str, int, bytes]] = []
        self._count = 0

    def open(self) -> None:
        import sqlite3  # 3 ms of the first sample of every dataset otherwise

        with self._errors():
            # A pass may be begun in one thread and ended in another; it is never in two at once.
            self._connection = sqlite3.connect(self._path, timeout=_LONGEST_WAIT_S, check_same_thread=False)
            try:
                self._connection.executescript(_TABLES)
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        try:
            self._flush()
        finally:
            self._connection.close()
            self._lock.release()

    def complete(self) -> int | None:
        query = "SELECT samples, whole FROM complete WHERE part = ?"
        with self._transaction() as transaction:
            found = transaction.execute(query, (self._part,)).fetchone()
        if found is None:
            return None
        samples, whole = found
        enough = bool(whole) or (self._limit is not None and samples >= self._limit)
        if enough and self._verbose:
            log.info("DBCache: %d samples come from %s", samples, self._path)
        return int(samples) if enough else None

    def read(self, number: int) -> Any:
        query = "SELECT sample FROM recorded WHERE part = ? AND number = ?"
        with self._transaction() as transaction:
            found = transaction.execute(query, (self._part, number)).fetchone()
        if found is None:
            raise StateError(f"sample {number} is not in the cache", Where(shard=self._path))
        return self._pickler.loads(found[0])

    def begin(self, taken: int) -> bool:
        if not self._lock.acquire():
            return False
        with self._transaction() as transaction:
            transaction.execute("DELETE FROM complete WHERE part = ?", (self._part,))
            transaction.execute("DELETE FROM recorded WHERE part = ? AND number >= ?", (self._part, taken))
            query = "SELECT COUNT(*) FROM recorded WHERE part = ?"
            self._count = transaction.execute(query, (self._part,)).fetchone()[0]
        return self._count == taken

    def append(self, sample: Any) -> None:
        self._waiting.append((self._part, self._count, self._pickler.dumps(sample)))
        self._count += 1
        if len(self._waiting) >= _CHUNK:
            self._flush()

    def finish(self, *, whole: bool) -> None:
        with self._transaction() as transaction:
            self._insert(transaction)
            row = (self._part, self._count, whole)
            transaction.execute("INSERT OR REPLACE INTO complete VALUES (?, ?, ?)", row)

    def _flush(self) -> None:
        if self._waiting:
            with self._transaction() as transaction:
                self._insert(transaction)

    def _insert(self, transaction: sqlite3.Connection) -> None:
        transaction.executemany("INSERT INTO recorded VALUES (?, ?, ?)", self._waiting)
        self._waiting = []

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._errors(), self._connection as connection:
            yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import sqlite3

        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreError(
                f"the cache cannot be opened or written: {error}",
                Where(shard=self._path),
                hint="check its disk and its permissions",
            ) from error
        except sqlite3.DatabaseError as error:
            raise FormatError(
                f"this is not a sample cache: {error}",
                Where(shard=self._path),
                hint="name a file that DBCache may write, or delete it",
            ) from error
