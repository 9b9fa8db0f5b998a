"""A range of the stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from webdataset.arguments import require_count
from webdataset.describe import Described, call
from webdataset.errors import SpecError
from webdataset.flow import Pass, Resumable

from ._buffers import Counted


@dataclass(frozen=True, repr=False, init=False)
class Slice(Described, Resumable):
    """Yield the items that `itertools.islice` would: `slice(stop)` or `slice(start, stop[, step])`.

    >>> list(Slice(1, 8, 3)(range(100)))
    [1, 4, 7]

    Nothing beyond `stop` is taken from upstream. Each worker process slices its own stream.
    """

    verb: ClassVar[str] = "slice"
    cuts: ClassVar[bool] = True
    first: int = 0
    stop: int | None = None
    step: int = 1

    def __init__(self, *args: int | None) -> None:
        if not 1 <= len(args) <= 3:
            raise SpecError(f"slice{args}: give slice(stop) or slice(start, stop[, step])")
        first, stop, step = (None, args[0], None) if len(args) == 1 else (*args, None)[:3]
        self._set(
            first=require_count("slice", "first", first or 0, least=0),
            stop=None if stop is None else require_count("slice", "stop", stop, least=0),
            step=1 if step is None else require_count("slice", "step", step, least=1),
        )

    def __repr__(self) -> str:
        return call("slice", self.first, self.stop, self.step)

    def count(self, items: int) -> int:
        """How many items of so many are in the range."""
        stop = items if self.stop is None else min(items, self.stop)
        return len(range(self.first, stop, self.step))

    def start(self, during: Pass) -> Counted:
        """Nothing taken."""
        return Counted()

    def run(self, items: Iterator[Any], at: Counted, /) -> Iterator[Any]:
        """Yield the items of the range."""
        while self.stop is None or at.taken < self.stop:
            try:
                item = next(items)
            except StopIteration:
                return
            offset = at.taken - self.first
            at.taken += 1
            if offset >= 0 and offset % self.step == 0:
                yield item
