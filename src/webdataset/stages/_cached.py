"""Samples kept in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from webdataset.arguments import require_count
from webdataset.describe import Described
from webdataset.errors import StateError
from webdataset.flow import Json, Pass, Recall, Resumable

from ._record_replay import Played, Store, is_played_back, log, play

Part = tuple[int, int]


class Memory:
    """The complete recordings of a stage, by part. They are not sent to other processes."""

    def __init__(self) -> None:
        self.recordings: dict[Part, list[Any]] = {}

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        return Memory, ()


class Recorded(Played):
    """The progress of a pass. A recording in memory ends with its process: a resumed pass is recorded again."""

    def __init__(self, during: Pass, *, cached: bool) -> None:
        super().__init__(during)
        self.cached = cached
        self.is_whole = True  # the input begins with the first sample; not so after a checkpoint of version 1

    @property
    def rewinds(self) -> bool:  # type: ignore[override]  # a constant in most stages
        """While it records."""
        return self.is_whole and not self.cached

    def save(self) -> Json:
        """Also whether the input comes again from its beginning."""
        return {**super().save(), "whole": self.is_whole}

    def save_start(self) -> Json:
        """Return that samples are played back: their order does not follow from the number of the pass."""
        return {"taken": 0, "cached": True, "whole": True} if self.cached else None

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on from there."""
        super().load(saved, recall)
        self.is_whole = saved.get("whole", False)


@dataclass(frozen=True, repr=False, eq=False)
class Cached(Described, Resumable):
    """Keep all samples in memory during the first complete pass and yield the same ones in later passes.

    >>> stage = Cached()
    >>> list(stage("abc")), list(stage("never read"))
    (['a', 'b', 'c'], ['a', 'b', 'c'])

    Later passes have the order of the first: shuffle after the cache. Each process keeps its own part of the data, so
    worker processes must persist (`persistent_workers=True`) for the cache to be of use. Fields may be replaced
    downstream (each pass gets a new dict) but arrays changed in place stay changed. A checkpoint taken during a later
    pass can be resumed only in the same process; after one taken between two passes a new process records the next
    pass, in the order of that one. For more data than fits, use `DBCache`.

    Args:
        limit_bytes: about how much may be kept; if there is more, nothing is kept and a warning is logged.
    """

    verb: ClassVar[str] = "Cached"
    keeps_count: ClassVar[bool] = True
    limit_bytes: int | None = None
    memory: Memory = field(default_factory=Memory, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.limit_bytes is not None:
            require_count("Cached", "limit_bytes", self.limit_bytes, least=0)

    @property
    def carries(self) -> bool:
        """A complete pass is recorded."""
        return True

    def start(self, during: Pass) -> Recorded:
        """The beginning of a pass."""
        return Recorded(during, cached=during.world.part in self.memory.recordings)

    def run(self, items: Iterator[Any], at: Recorded, /) -> Iterator[Any]:
        """Play back or record."""
        return play(items, at, _InMemory(self.memory, at.during.world.part, self.limit_bytes))

    def again(self, origin: Json, recall: Recall) -> Any:
        """A sample by its number, or, while recording, from upstream."""
        if not is_played_back(origin):
            return recall(origin)
        recording = self.memory.recordings.get(tuple(origin["part"]), [])
        if origin["cached"] >= len(recording):
            raise StateError("the checkpoint needs samples of a cache in memory that is gone", hint="use DBCache")
        return _copied(recording[origin["cached"]])


class _InMemory(Store):
    def __init__(self, memory: Memory, part: Part, limit_bytes: int | None) -> None:
        self._memory, self._part, self._limit_bytes = memory, part, limit_bytes
        self._samples: list[Any] | None = None
        self._bytes = 0

    def open(self) -> None:
        pass

    def close(self) -> None:
        self._samples = None

    def complete(self) -> int | None:
        recording = self._memory.recordings.get(self._part)
        return None if recording is None else len(recording)

    def read(self, number: int) -> Any:
        return _copied(self._memory.recordings[self._part][number])

    def begin(self, taken: int) -> bool:
        self._samples = []
        return taken == 0

    def append(self, sample: Any) -> None:
        if self._samples is None:
            return
        self._samples.append(_copied(sample))
        if self._limit_bytes is None:
            return
        self._bytes += bytes_of(sample)
        if self._bytes > self._limit_bytes:
            log.warning("Cached: more than %d bytes; nothing is kept. DBCache keeps samples on disk", self._limit_bytes)
            self._samples = None

    def finish(self, *, whole: bool) -> None:
        if self._samples is not None:
            self._memory.recordings[self._part] = self._samples


def _copied(sample: Any) -> Any:
    """Return a copy of a sample, because later stages change samples in place."""
    return sample.copy() if isinstance(sample, dict | list) else sample


def bytes_of(sample: Any) -> int:
    """About how much memory a sample takes.

    >>> bytes_of({"a": bytes(1000)}) // 100
    10
    """
    if isinstance(sample, dict):
        return sum(bytes_of(value) for value in sample.values())
    if isinstance(sample, tuple | list):
        return sum(bytes_of(value) for value in sample)
    return int(getattr(sample, "nbytes", 0)) or sys.getsizeof(sample)
