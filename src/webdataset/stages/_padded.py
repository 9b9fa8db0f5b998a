"""Batches of arrays of different lengths, filled up to the longest."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from webdataset.arguments import require_count
from webdataset.describe import Described
from webdataset.errors import CollationError

from ._collate import collate_columns, combine_values


@dataclass(frozen=True, repr=False)
class PaddedCollation(Described):
    """A collation function for arrays and tensors that differ in shape: `batched(16, padded_collation())`.

    >>> collate = PaddedCollation(value=-1)
    >>> collate([(np.array([1, 2, 3]), "a"), (np.array([4]), "b")])
    (array([[ 1,  2,  3],
            [ 4, -1, -1]]), ['a', 'b'])

    All columns that need no padding are treated as `default_collation_fn` does.

    Args:
        value: what to fill with; a dict gives each field (or position) its own, 0 for the others.
        multiple: lengths are rounded up to a multiple of this, along each axis that differs.
        lengths: True makes each column of arrays a pair of the array and the lengths along its first axis, also in a
            batch whose arrays are equally long.
    """

    verb: ClassVar[str] = "padded_collation"
    value: Any = 0
    multiple: int = 1
    lengths: bool = False

    def __post_init__(self) -> None:
        require_count("padded_collation", "multiple", self.multiple, least=1)

    def __call__(self, samples: Sequence[Any]) -> Any:
        """One batch out of a list of samples."""
        columns = collate_columns(samples, lambda column: column)
        if isinstance(columns, dict):
            return {name: self._combine(column, name) for name, column in columns.items()}
        return tuple([self._combine(column, position) for position, column in enumerate(columns)])

    def _combine(self, column: list[Any], name: Any) -> Any:
        if not all(_is_array(value) for value in column):
            return combine_values(column)
        filled = self._filled(column, name)
        return (filled, np.array([len(value) for value in column])) if self.lengths and column[0].ndim else filled

    def _filled(self, column: list[Any], name: Any) -> Any:
        if len({tuple(value.shape) for value in column}) == 1:
            return combine_values(column)
        if len({value.ndim for value in column}) > 1:
            shapes = ", ".join(sorted({str(tuple(value.shape)) for value in column}))
            raise CollationError(
                f"arrays with different numbers of axes cannot be padded: {shapes} in {name!r}",
                hint="make them equal in a .map before",
            )
        return self._pad(column, self.value.get(name, 0) if isinstance(self.value, Mapping) else self.value)

    def _pad(self, column: list[Any], value: Any) -> Any:
        shapes = [tuple(array.shape) for array in column]
        shape = [
            sizes[0] if len(set(sizes)) == 1 else -(-max(sizes) // self.multiple) * self.multiple
            for sizes in zip(*shapes, strict=True)
        ]
        first = column[0]
        if isinstance(first, np.ndarray):
            padded = np.full((len(column), *shape), value, np.result_type(*[array.dtype for array in column]))
        else:
            padded = first.new_full((len(column), *shape), value)
        for number, array in enumerate(column):
            place: Any = (number, *[slice(size) for size in array.shape])
            padded[place] = array
        return padded


def _is_array(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return isinstance(value, np.ndarray) or (torch is not None and isinstance(value, torch.Tensor))
