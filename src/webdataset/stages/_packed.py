"""Short sequences side by side in rows of a fixed length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from webdataset.describe import Described
from webdataset.errors import CollationError, SpecError, Where
from webdataset.flow import Pass, Resumable

from ._buffers import Grouped
from ._check_arguments import require_count
from ._collate import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from webdataset.flow import Json, Recall


class Rows(Grouped):
    """Open rows, and how much of each is used."""

    def __init__(self, measure: Callable[[Any], int]) -> None:
        super().__init__()
        self.used: list[int] = []
        self._measure = measure

    def take(self, item: Any, group: int) -> None:
        """Put a sequence into a row."""
        super().take(item, group)
        if group == len(self.used):
            self.used.append(0)
        self.used[group] += self._measure(item)

    def remove(self, group: int) -> None:
        """The row is about to be handed on."""
        super().remove(group)
        del self.used[group]

    def load(self, saved: Json, recall: Recall) -> None:
        """Fill the rows again."""
        super().load(saved, recall)
        self.used = [sum(map(self._measure, row)) for row in self.items]


@dataclass(frozen=True, repr=False)
class Packed(Described, Resumable):
    """Put sequences into rows of `size`, each into the first open row that has room.

    >>> samples = [{"__key__": key, "tokens": [n] * n} for key, n in [("a", 3), ("b", 4), ("c", 2)]]
    >>> for row in Packed(5, "tokens")(samples):
    ...     print(row["__keys__"], row["tokens"], row["segment_ids"], row["positions"])
    ['a', 'c'] [3 3 3 2 2] [1 1 1 2 2] [0 1 2 0 1]
    ['b'] [4 4 4 4 0] [1 1 1 1 0] [0 1 2 3 0]

    A row is handed on when it is full, or, the fullest first, when a sequence fits nowhere and `rows` are open. A row
    has the fields asked for, the keys of its samples under `__keys__`, `segment_ids` (1 for the first sequence, 2 for
    the second, …, 0 for padding) and `positions` (0, 1, 2, … within each sequence).

    Args:
        size: the length of a row.
        fields: a field or several of equal length in each sample, such as tokens and labels.
        rows: how many rows may be open; more waste less and hold more.
        value: what to fill with; a dict gives each field its own.
        overlong: what to do with a sequence longer than a row: "error", "drop" it, or "cut" it.
    """

    verb: ClassVar[str] = "packed"
    size: int
    fields: str | Sequence[str]
    rows: int = 16
    value: Any = 0
    overlong: str = "error"

    def __post_init__(self) -> None:
        fields = (self.fields,) if isinstance(self.fields, str) else tuple(self.fields)
        if not fields:
            raise SpecError("packed() was given no fields", hint='for example packed("tokens", size=2048)')
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "size", require_count("packed", "size", self.size, least=1))
        object.__setattr__(self, "rows", require_count("packed", "rows", self.rows, least=1))
        if self.overlong not in {"error", "drop", "cut"}:
            raise SpecError(f"packed(overlong={self.overlong!r}): choose 'error', 'drop' or 'cut'")

    def start(self, during: Pass) -> Rows:
        """No rows."""
        return Rows(self._length)

    def run(self, items: Iterator[Any], at: Rows, /) -> Iterator[Any]:
        """Find a place for each sequence."""
        yield from self._full(at)
        for item in items:
            length = self._checked_length(item)
            if length > self.size:
                continue
            place = next((row for row, used in enumerate(at.used) if used + length <= self.size), len(at.used))
            at.take(item, place)
            if len(at.items) > self.rows:
                yield self._hand(at, at.used.index(max(at.used[:-1])))
            yield from self._full(at)
        while at.items:
            yield self._hand(at, 0)

    def again(self, origin: Json, recall: Recall) -> Any:
        """The row of these samples."""
        return self._packed([recall(one) for one in origin])

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
        lengths = {field: len(sample[field]) for field in self.fields}
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
                hint="use packed(overlong='cut') or 'drop', or longer rows",
            )
        return length

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
