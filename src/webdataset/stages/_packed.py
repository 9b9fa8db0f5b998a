"""Short sequences side by side in rows of a fixed length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from webdataset.arguments import require_choice, require_count
from webdataset.describe import Described
from webdataset.errors import CollationError, SpecError, Where
from webdataset.flow import Json, Pass, Recall, Resumable, well_formed

from ._buffers import Grouped
from ._collate import key_of


class Rows(Grouped):
    """Open rows, and how much of each is used.

    Args:
        measure: the length of a sequence.
        again: makes a sequence again from its origin.
    """

    def __init__(self, measure: Callable[[Any], int], again: Callable[[Json, Recall], Any]) -> None:
        super().__init__()
        self.used: list[int] = []
        self._measure, self._again = measure, again

    def take(self, item: Any, group: int, start: int | None = None) -> None:
        """Put a sequence into a row; `start` is where a piece begins in its sample."""
        super().take(item, group)
        origin = self.origins[group][-1]
        if start is not None and origin is not None:
            self.origins[group][-1] = [origin, start]
        if group == len(self.used):
            self.used.append(0)
        self.used[group] += self._measure(item)

    def remove(self, group: int) -> None:
        """Remove a row, which is about to be yielded."""
        super().remove(group)
        del self.used[group]

    def load(self, saved: Json, recall: Recall) -> None:
        """Fill the rows again."""
        super().load(saved, lambda origin: self._again(origin, recall))
        self.used = [sum(map(self._measure, row)) for row in self.items]


@dataclass(frozen=True, repr=False)
class Packed(Described, Resumable):
    """Put sequences into rows of `size`, each into the first open row with enough space.

    >>> samples = [{"__key__": key, "tokens": [n] * n} for key, n in [("a", 3), ("b", 4), ("c", 2)]]
    >>> for row in Packed(5, "tokens")(samples):
    ...     print(row["__keys__"], row["tokens"], row["segment_ids"], row["positions"])
    ['a', 'c'] [3 3 3 2 2] [1 1 1 2 2] [0 1 2 0 1]
    ['b'] [4 4 4 4 0] [1 1 1 1 0] [0 1 2 3 0]

    A row is yielded when it is full, or, the fullest first, when a sequence fits nowhere and `rows` are open. A row
    has the named fields, the keys of its samples under `__keys__`, `segment_ids` (1 for the first sequence, 2 for
    the second, …, 0 for padding) and `positions` (0, 1, 2, … within each sequence).

    Args:
        size: the length of a row.
        fields: a field or several of equal length in each sample, such as tokens and labels.
        rows: how many rows may be open; more waste less and hold more.
        value: what to fill with; a dict gives each field its own.
        overlong: what to do with a sequence longer than a row: "error", "drop" it, "cut" off what is too long, or
            "split" it into pieces, each a sequence of its own with the key of the sample: no element is lost.
    """

    verb: ClassVar[str] = "packed"
    size: int
    fields: str | Sequence[str]
    rows: int = 16
    value: Any = 0
    overlong: str = "error"

    def __post_init__(self) -> None:
        self._set(size=require_count("packed", "size", self.size, least=1))  # first: they may be in the wrong order
        given: Any = (self.fields,) if isinstance(self.fields, str) else self.fields
        fields = tuple(given) if isinstance(given, Iterable) else ()
        if not fields or not all(isinstance(field, str) for field in fields):
            raise SpecError(
                f"packed(fields={self.fields!r}): expected the names of fields",
                hint='for example packed(2048, "tokens")',
            )
        self._set(fields=fields)
        self._set(rows=require_count("packed", "rows", self.rows, least=1))
        require_choice("overlong", self.overlong, ("error", "drop", "cut", "split"))

    def start(self, during: Pass) -> Rows:
        """No rows."""
        return Rows(self._length, self._sequence)

    def run(self, items: Iterator[Any], at: Rows, /) -> Iterator[Any]:
        """Find a row for each sequence, and yield the rows that are full."""
        yield from self._closed(at)
        for item in at.arrivals(items):
            length = self._checked_length(item)
            if self.overlong == "split":
                for start in range(0, length, self.size):  # all of them before the first row is yielded
                    piece = self._piece(item, start)
                    at.take(piece, self._place(at, self._length(piece)), start)
            elif length > self.size:
                continue
            else:
                at.take(item, self._place(at, length))
            yield from self._closed(at)
        while at.items:
            yield self._hand(at, 0)

    def again(self, origin: Json, recall: Recall) -> Any:
        """Make the row of these samples again."""
        return self._packed([self._sequence(part, recall) for part in origin])

    def _sequence(self, origin: Json, recall: Recall) -> Any:
        if self.overlong != "split":
            return recall(origin)
        with well_formed(origin, "packed()"):
            sample, start = origin
        return self._piece(recall(sample), start)

    def _piece(self, sample: Any, start: int) -> Any:
        return {**sample, **{field: sample[field][start : start + self.size] for field in self.fields}}

    def _place(self, at: Rows, length: int) -> int:
        """Return the first row with space for so many elements; the number after the last is a new row."""
        return next((row for row, used in enumerate(at.used) if used + length <= self.size), len(at.used))

    def _closed(self, at: Rows) -> Iterator[Any]:
        """The rows to yield after a sample was placed."""
        if self.overlong == "split":  # its pieces may fill many rows at once
            yield from self._full(at)
        if len(at.items) > self.rows:
            yield self._hand(at, at.used.index(max(at.used[:-1])))
        yield from self._full(at)

    def _full(self, at: Rows) -> Iterator[Any]:
        while self.size in at.used:
            yield self._hand(at, at.used.index(self.size))

    def _hand(self, at: Rows, row: int) -> Any:
        packed = self._packed(at.items[row])
        at.remove(row)
        return packed

    def _length(self, sample: Any) -> int:
        length = len(sample[self.fields[0]])
        return min(length, self.size) if self.overlong == "cut" else length

    def _checked_length(self, sample: Any) -> int:
        lengths = {field: self._length_of(sample, field) for field in self.fields}
        if len(set(lengths.values())) > 1:
            raise CollationError(
                f"fields of one sample differ in length: {lengths}",
                Where(key=key_of(sample)),
                hint="pack only fields that have one value per token",
            )
        length = self._length(sample)
        if length > self.size and self.overlong == "error":
            raise CollationError(
                f"a sequence of {length} does not fit into rows of {self.size}",
                Where(key=key_of(sample)),
                hint="use packed(overlong='split'), 'cut' or 'drop', or longer rows",
            )
        return length

    def _length_of(self, sample: Any, field: str) -> int:
        if not isinstance(sample, Mapping) or field not in sample:
            named = isinstance(sample, Mapping)
            raise SpecError(
                f"packed({self.size}, {field!r}) got {list(sample) if named else f'a {type(sample).__name__}'}",
                Where(key=key_of(sample)),
                hint="name a field that it has" if named else "put it before .to_tuple()",
            )
        value = sample[field]
        if isinstance(value, bytes | str) or not hasattr(value, "__len__"):
            raise SpecError(
                f"packed({self.size}, {field!r}) needs a sequence of numbers, got {type(value).__name__}",
                Where(key=key_of(sample)),
                hint="call .decode() before it, and a function that makes numbers of text",
            )
        return len(value)

    def _packed(self, samples: list[Any]) -> dict[str, Any]:
        lengths = [self._length(sample) for sample in samples]
        row: dict[str, Any] = {"__keys__": [key_of(sample) for sample in samples]}
        for field in self.fields:
            value = self.value.get(field, 0) if isinstance(self.value, dict) else self.value
            pieces = [np.asarray(sample[field])[: self.size] for sample in samples]
            row[field] = self._filled(pieces, value)
        row["segment_ids"] = self._filled(
            [np.full(length, number, np.int32) for number, length in enumerate(lengths, start=1)], 0
        )
        row["positions"] = self._filled([np.arange(length, dtype=np.int32) for length in lengths], 0)
        return row

    def _filled(self, pieces: list[Any], value: Any) -> Any:
        joined = np.concatenate(pieces)
        rest = np.full((self.size - len(joined), *joined.shape[1:]), value, joined.dtype)
        return np.concatenate([joined, rest])
