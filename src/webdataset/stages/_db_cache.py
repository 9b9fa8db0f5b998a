"""Samples kept in an SQLite file."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from webdataset.errors import SpecError
from webdataset.flow import Pass, Resumable

from ._check import require_count
from ._describe import Described
from ._recording import Pickler, Played, RecordingLock, Store, log, module_by_name, play

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webdataset.flow import Json, Recall

# A transaction waits for the disk (about 5 ms); every 500 samples that is 10 µs a sample.
_CHUNK = 500
# Workers take turns in writing; a turn takes milliseconds.
_PATIENCE_S = 120

_TABLES = """
CREATE TABLE IF NOT EXISTS recorded (part TEXT, number INTEGER, sample BLOB, PRIMARY KEY (part, number));
CREATE TABLE IF NOT EXISTS complete (part TEXT PRIMARY KEY, samples INTEGER);
"""


@dataclass(frozen=True, repr=False, eq=False)
class DBCache(Described, Resumable):
    """Keep the first `size` samples in an SQLite file; once it is complete, they come from there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stage = DBCache(folder + "/cache.db", 2)
    ...     list(stage("abc")), list(stage("never read"))
    (['a', 'b'], ['a', 'b'])

    Every pass has the same samples: the first, which reads and records them, ends after `size` samples too. Workers share
    the file; each records and plays back its own part, and `size` is divided among them. A recording counts when it is
    complete, so a program that is killed begins it anew. It does not know where its samples came from: use another file
    for another dataset, and another number of workers records its own.

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
            object.__setattr__(self, "size", require_count("DBCache", "size", self.size, least=0))
        if self.source is not None and not hasattr(self.source, "__iter__"):
            raise SpecError(f"DBCache(source={self.source!r}): the source cannot be iterated")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "pickler": module_by_name(self.pickler)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, pickler=module_by_name(state["pickler"]))

    def __iter__(self) -> Iterator[Any]:
        if self.source is None:
            raise SpecError("DBCache was given no source", hint="use it as a stage, or DBCache(dbname, size, source)")
        return self(self.source)

    def start(self, during: Pass) -> Played:
        """The beginning of a pass."""
        return Played(during)

    def run(self, items: Iterator[Any], at: Played, /) -> Iterator[Any]:
        """Play back or record."""
        which, parts = at.during.world.part
        limit = None if self.size is None else self.size * (which + 1) // parts - self.size * which // parts
        return play(items, at, self._store(which, parts), limit=limit, order=self._order(at.during))

    def again(self, origin: Json, recall: Recall) -> Any:
        """A sample by its number, or, while recording, from upstream."""
        return recall(origin) if not isinstance(origin, dict) else self._read(origin["cached"])
