"""The rows of batches and the items of lists, one by one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from webdataset.describe import Described
from webdataset.errors import CollationError, StageError
from webdataset.flow import Json, Pass, Recall, Resumable, count_in, well_formed

from ._buffers import LastOrigin, recallable


class Opened(LastOrigin):
    """The batch whose rows are being yielded: its origin, and how many rows were yielded."""

    def __init__(self) -> None:
        self.batch: Any = None
        self.source: Json = None
        self.row, self.is_open = 0, False

    def open(self, batch: Any) -> None:
        """Begin with a batch."""
        self.batch, self.source, self.is_open = batch, self.upstream_origin(), True

    def finish(self) -> None:
        """End the batch: its last row is about to be yielded."""
        self.batch, self.source, self.row, self.is_open = None, None, 0, False

    def save(self) -> Json:
        """Return the origin of the batch, and how many rows were yielded; None between two batches."""
        return {"batch": recallable([self.source])[0], "row": self.row} if self.is_open else None

    def load(self, saved: Json, recall: Recall) -> None:
        """Fetch the batch again."""
        self.source, self.row, self.is_open = saved["batch"], count_in(saved["row"]), saved["batch"] is not None
        self.batch = recall(self.source) if self.is_open else None


class _TakesApart(Described, Resumable):
    """A stage that yields the parts of every item."""

    @staticmethod
    @abstractmethod
    def parts(item: Any) -> list[Any]:
        """The parts of an item."""

    def start(self, during: Pass) -> Opened:
        """Nothing open."""
        return Opened()

    def run(self, items: Iterator[Any], at: Opened, /) -> Iterator[Any]:
        """Part by part, beginning in the middle of the item that is open."""
        for batch in chain([at.batch] if at.is_open else [], items):
            if not at.is_open:
                at.open(batch)
            parts = self.parts(batch)
            for row in range(at.row, len(parts)):
                at.handed = None if at.source is None else [at.source, row]
                at.row = row + 1
                if at.row == len(parts):
                    at.finish()
                yield parts[row]
            at.finish()

    def again(self, origin: Json, recall: Recall) -> Any:
        """Make a part of an item again."""
        with well_formed(origin, "unbatched()"):
            whole, row = origin
        parts = self.parts(recall(whole))
        with well_formed(origin, "unbatched()"):
            return parts[row]


@dataclass(frozen=True, repr=False)
class Unbatched(_TakesApart):
    """Yield the rows of batches: the inverse of `batched`.

    >>> list(Unbatched()([{"cls": [3, 4], "meta": {"name": ["a", "b"]}}]))
    [{'cls': 3, 'meta': {'name': 'a'}}, {'cls': 4, 'meta': {'name': 'b'}}]

    A batch is a tuple or list of columns, which gives tuples, or a dict of columns, which gives dicts; a column that is
    a dict is taken apart as well.
    """

    verb: ClassVar[str] = "unbatched"

    @staticmethod
    def parts(item: Any) -> list[Any]:
        """The rows of a batch."""
        return rows_of(item)


@dataclass(frozen=True, repr=False)
class Unlisted(_TakesApart):
    """Yield the items of lists: the inverse of `listed`.

    >>> list(Unlisted()([["a", "b"], ["c"]]))
    ['a', 'b', 'c']
    """

    verb: ClassVar[str] = "unlisted"

    @staticmethod
    def parts(item: Any) -> list[Any]:
        """The items of a list."""
        if not isinstance(item, list):
            raise StageError(f"unlisted() got a {type(item).__name__}, not a list", hint="did you mean unbatched()?")
        return item


def rows_of(batch: Any) -> list[Any]:
    """The rows of a batch.

    >>> rows_of(([1, 2], ["a", "b"]))
    [(1, 'a'), (2, 'b')]
    """
    if isinstance(batch, dict):
        columns = [rows_of(column) if isinstance(column, dict) else column for column in batch.values()]
        return [dict(zip(batch, row, strict=True)) for row in _transposed(columns, list(batch))]
    if isinstance(batch, tuple | list):
        columns = [rows_of(column) if isinstance(column, dict) else column for column in batch]
        return _transposed(columns, list(range(len(batch))))
    raise CollationError(
        f"unbatched() got a {type(batch).__name__}, not a batch",
        hint="a batch is a tuple, list or dict of columns of equal length",
    )


def _transposed(columns: list[Any], names: list[Any]) -> list[tuple[Any, ...]]:
    try:
        lengths = {name: len(column) for name, column in zip(names, columns, strict=True)}
    except TypeError as error:
        raise CollationError("a column of the batch has no length", hint="drop it, or repeat it per row") from error
    if len(set(lengths.values())) > 1:
        raise CollationError(
            f"the columns of the batch have different lengths: {lengths}",
            hint="drop columns that are not one value per sample",
        )
    # Not zip: iterating a tensor is slower than indexing it.
    return [tuple([column[row] for column in columns]) for row in range(max(lengths.values(), default=0))]
