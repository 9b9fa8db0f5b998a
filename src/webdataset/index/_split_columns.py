"""Names → keys and fields, for all members at once: a step per column of the names instead of one per name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._shard_index import Ints, Keys

Bytes = NDArray[np.uint8]

_DOT, _SLASH, _UNDERSCORE = (ord(character) for character in "./_")

# More kinds of fields than this in one archive, and looking for each among all members costs more than a dictionary.
_MOST_FIELDS = 32
_WORD = 8


class Cut(NamedTuple):
    """What names say: how long the key of each is, and which field it is."""

    names: Bytes
    lengths: Ints
    fields: Ints

    def keys(self, members: Ints) -> Keys:
        """The keys of some members."""
        lengths = self.lengths[members]
        inside = np.arange(self.names.shape[1]) < lengths[:, None]
        return Keys.of_text(self.names[members][inside].tobytes(), lengths)


def cut(names: Bytes, fields: dict[str, int]) -> Cut | None:
    """Cut names, rows filled up with NULs, by the rule of `sample_and_field`; new fields are added to `fields`.

    None if one of them is not ordinary: no field, hidden, for data about the archive, or NULs in the middle.

    >>> names = np.array([b"a.jpg", b"a.cls", b"b.jpg"], "S100").view(np.uint8).reshape(3, 100)
    >>> known = {}
    >>> found = cut(names, known)
    >>> found.fields.tolist(), list(found.keys(np.array([0, 2]))), known
    ([0, 1, 0], ['a', 'b'], {'jpg': 0, 'cls': 1})
    """
    width = int(np.flatnonzero(np.bitwise_or.reduce(names, axis=0)).max(initial=0)) + 1
    names = names[:, :width]
    columns = np.ascontiguousarray(names.T)
    lengths = _key_lengths(columns)
    numbers = None if lengths is None else _numbers(names, lengths, fields)
    return None if lengths is None or numbers is None else Cut(names, lengths, numbers)


def _key_lengths(columns: Bytes) -> Ints | None:
    """How long each key is: up to the first dot after the last slash."""
    used = columns != 0
    ends = used.view(np.uint8).sum(axis=0, dtype=np.uint8)
    if (
        len(columns) < 2
        or (used[1:] & ~used[:-1]).any()
        or ((columns[0] == _UNDERSCORE) & (columns[1] == _UNDERSCORE)).any()
    ):
        return None
    dots, slashes = columns == _DOT, columns == _SLASH
    if dots[0].any() or (dots[1:] & slashes[:-1]).any():
        return None
    lengths = np.zeros(columns.shape[1], np.int64)
    seen = np.zeros(columns.shape[1], bool)
    for number, (dot, slash) in enumerate(zip(dots, slashes, strict=True)):
        if dot.any():
            lengths[dot & ~seen] = number
            seen |= dot
        if slash.any():
            seen &= ~slash
    return lengths if seen.all() and (lengths + 1 < ends).all() else None


def _numbers(names: Bytes, lengths: Ints, fields: dict[str, int]) -> NDArray[np.int64] | None:
    """The number of each name's field. Fields are compared as words of eight bytes, one or more of them."""
    rows, width = names.shape
    words = -(-(width - int(lengths.min()) - 1) // _WORD)
    padded = np.zeros((rows, width + words * _WORD), np.uint8)
    padded[:, :width] = names
    begin = np.arange(rows) * padded.shape[1] + lengths + 1
    everywhere: NDArray[np.uint64] = np.ndarray((padded.size - _WORD + 1,), "<u8", padded, 0, (1,))
    parts = [part for word in range(words) if (part := everywhere[begin + word * _WORD]).any()]
    numbers, left = np.empty(rows, np.int64), np.ones(rows, bool)
    for _ in range(_MOST_FIELDS):
        first = int(left.argmax())
        if not left[first]:
            return numbers
        alike = parts[0] == parts[0][first]
        for part in parts[1:]:
            alike &= part == part[first]
        field = names[first, lengths[first] + 1 :].tobytes().rstrip(b"\0").decode("utf-8", "surrogateescape")
        numbers[alike] = fields.setdefault(field, len(fields))
        left &= ~alike
    return None
