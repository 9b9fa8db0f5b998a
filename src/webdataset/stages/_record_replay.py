"""The base of all caches of samples: record a pass while it runs, and play it back once it is complete.

A recording belongs to one part of the data, so that each worker plays back what it recorded. It is used once it is
complete: a pass that was left, by a `break` or a kill, is recorded again from the start, or, when the pipeline is
resumed from a checkpoint, from there on.
"""

from __future__ import annotations

import logging
import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from webdataset.address import Address
from webdataset.describe import Described
from webdataset.errors import StateError
from webdataset.flow import Drawn, Json, Pass, Recall, Resumable, count_in
from webdataset.redact import redacted
from webdataset.stores import lock_file, system_errors

from ._buffers import LastOrigin

log = logging.getLogger("webdataset.stages")


class Store(ABC):
    """One recording. It is open inside a `with` block only."""

    def __enter__(self) -> Self:
        self._owner = os.getpid()
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        # A forked child has copies of the parent's open passes; it must not write to their files or close them.
        if os.getpid() == self._owner:
            self.close()

    @abstractmethod
    def open(self) -> None:
        """Open what the methods below need."""

    @abstractmethod
    def close(self) -> None:
        """Write what is waiting and close it."""

    @abstractmethod
    def complete(self) -> int | None:
        """How many samples a complete recording has; None if there is none."""

    @abstractmethod
    def read(self, number: int) -> Any:
        """A sample of the recording."""

    @abstractmethod
    def begin(self, taken: int) -> bool:
        """Prepare to record after `taken` samples; return False if these are missing or another process records."""

    @abstractmethod
    def append(self, sample: Any) -> None:
        """Record the next sample."""

    @abstractmethod
    def finish(self, *, whole: bool) -> None:
        """Mark the recording as complete; `whole` if the stream has ended, and was not cut by a limit."""


class Played(LastOrigin):
    """How many samples were yielded, and whether they were played back."""

    def __init__(self, during: Pass) -> None:
        self.during = during
        self.taken, self.cached = 0, False

    def save(self) -> Json:
        """Return both values."""
        return {"taken": self.taken, "cached": self.cached}

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on from there."""
        self.taken, self.cached = count_in(saved["taken"]), bool(saved["cached"])


class OnDisk(Described, Resumable):
    """A cache of samples in files: a stage with a `pickler`, which may be a module."""

    pickler: Any

    @property
    def carries(self) -> bool:
        """Whether the next pass depends on this one: it does, a complete pass is recorded."""
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "pickler": _module_by_name(self.pickler)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, pickler=_module_by_name(state["pickler"]))

    def start(self, during: Pass) -> Played:
        """The beginning of a pass."""
        return Played(during)

    def again(self, origin: Json, recall: Recall) -> Any:
        """Read a sample by its number, or, if it was being recorded, from upstream."""
        if not is_played_back(origin):
            return recall(origin)
        with self.store(tuple(origin["part"])) as store:
            return store.read(origin["cached"])

    @abstractmethod
    def store(self, part: tuple[int, ...]) -> Store:
        """The recording of a part."""


def is_played_back(origin: Json) -> bool:
    """Whether this is the origin of a sample of a recording; origins of nested datasets are dicts, too."""
    return isinstance(origin, dict) and "cached" in origin


def play(
    items: Iterator[Any],
    at: Played,
    store: Store,
    *,
    limit: int | None = None,
    order: Callable[[int], Sequence[int]] = range,
) -> Iterator[Any]:
    """Play the recording back, or record while samples pass.

    Args:
        items: the stream to record.
        at: how far the pass is.
        store: where the recording is.
        limit: how many samples are recorded and yielded at most.
        order: in which order that many samples are played back.
    """
    with store:
        count = store.complete()
        if at.taken == 0:
            at.cached = at.cached or count is not None
        if not at.cached:
            yield from _record(items, at, store, limit)
        elif count is None:
            raise StateError(
                "the checkpoint was made while samples came out of a cache that is gone",
                hint="keep the cache with the checkpoint: use DBCache or LMDBCached, which are files, or start afresh",
            )
        else:
            yield from _replay(at, store, order(count if limit is None else min(count, limit)))


def _replay(at: Played, store: Store, order: Sequence[int]) -> Iterator[Any]:
    part = list(at.during.world.part)
    while at.taken < len(order):
        number = order[at.taken]
        sample = store.read(number)
        at.handed = {"cached": number, "part": part}
        at.taken += 1
        yield sample


def _record(items: Iterator[Any], at: Played, store: Store, limit: int | None) -> Iterator[Any]:
    again = at.taken if at.rewinds else 0  # samples that were yielded before a resume, and are only recorded now
    recording = store.begin(at.taken - again)
    whole = False
    while limit is None or at.taken < limit:
        try:
            sample = next(items)
        except StopIteration:
            whole = True
            break
        at.handed = at.upstream_origin()
        if recording:
            store.append(sample)
        if again:
            again -= 1
            continue
        at.taken += 1
        yield sample
    if recording:
        store.finish(whole=whole)
    else:
        log.info("this pass was not recorded: it began in the middle, or another process records the same part")


class Pickler:
    """Samples to bytes and back. Unless the user names a pickler, reading builds data only and runs no code."""

    def __init__(self, chosen: Any) -> None:
        self._chosen = chosen
        self._tried = False

    def dumps(self, sample: Any) -> bytes:
        """A sample as bytes. The first one is read back at once: better to fail now than in the second epoch."""
        data: bytes = (self._chosen or pickle).dumps(_for_disk(sample), protocol=pickle.HIGHEST_PROTOCOL)
        if not self._tried:
            self._tried = True
            self.loads(data)
        return data

    def loads(self, data: bytes) -> Any:
        """The sample again."""
        if self._chosen is not None:
            return self._chosen.loads(data)
        from webdataset.codecs import unpickle_loads

        return unpickle_loads(data)


def _for_disk(value: Any) -> Any:
    """Return a value for a file: addresses without their secrets; bytes in place of views, which cannot be pickled."""
    if isinstance(value, Address):
        clean = Address(redacted(value), value.birth, redacted(value.home), value.number)
        return Drawn(clean, value.draw) if isinstance(value, Drawn) else clean
    if type(value) is memoryview:
        return bytes(value)
    if type(value) is dict:
        return {name: _for_disk(each) for name, each in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(map(_for_disk, value))
    return value


def _module_by_name(pickler: Any) -> Any:
    """Return a module as its name, and a name as the module: modules cannot be pickled."""
    import importlib
    import types

    if isinstance(pickler, types.ModuleType):
        return ("module", pickler.__name__)
    if isinstance(pickler, tuple):
        return importlib.import_module(pickler[1])
    return pickler


class RecordingLock:
    """A lock that one process holds while it records; it ends with the process, however that ends."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock: Any = None

    def acquire(self) -> bool:
        """Take the lock; False if another process has it."""
        with system_errors(self._path):
            self._lock = lock_file(self._path)
        return self._lock is not None

    def release(self) -> None:
        """Release the lock, if this process holds it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
