"""NVIDIA's text index of a webdataset shard, as `wds2idx` writes it and DALI reads it.

    v1.2 2
    jpg 512 600 a/x0.jpg cls 2048 1 a/x0.cls
    jpg 3072 10 a/x1.jpg

A line per sample, four words per field: extension, offset of the data, size, member name (version 1.1: without the
name). Words are separated by blanks and cannot be quoted, so a shard with blanks in its names gets version 1.1, and one
with blanks in an extension none. The file is the same, byte for byte, as that of `wds2idx`, except where that tool is
wrong: for GNU long names it writes the offset of the wrong block, and it writes lines for members without a sample.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from webdataset.errors import EncodingError, FormatError, Where
from webdataset.order import starts_of

from ._member_names import sample_and_field
from ._shard_index import Ints, Keys, ShardIndex
from ._split_columns import Bytes, cut

_WORDS = {"v1.2": 4, "v1.1": 3}
# Any offset of a real archive has fewer digits; more would not fit 64 bits.
_MOST_DIGITS = 18
# Longer names are not put into a matrix: one of a megabyte would make all rows that long.
_LONG = 128
_ZERO = ord("0")


def write_dali(index: ShardIndex) -> bytes:
    """The text of an index.

    >>> from ._build_index import build
    >>> print(write_dali(build([("a.jpg", 512, 600), ("a.cls", 2048, 1)])).decode(), end="")
    v1.2 1
    jpg 512 600 a.jpg cls 2048 1 a.cls
    """
    for extension in index.fields:
        if not _is_word(extension):
            raise EncodingError(
                f"the extension {extension!r} cannot be written into a text index",
                hint="rename the members; extensions must have characters and no blanks",
            )
    keys = list(index.keys)
    named = len(keys) == len(index) and (not keys or ("" not in keys and _is_word("".join(keys))))
    members = _members(index, keys if named else None)
    lines = [" ".join(members[first:end]) for first, end in pairwise(index.firsts.tolist())]
    text = "\n".join([f"v1.{2 if named else 1} {len(index)}", *lines, ""])
    return text.encode("utf-8", "surrogateescape")


def _members(index: ShardIndex, keys: list[str] | None) -> list[str]:
    """The words of each member."""
    fields = [index.fields[number] for number in index.field_numbers.tolist()]
    columns = fields, index.offsets.tolist(), index.sizes.tolist()
    if keys is None:
        return [f"{field} {offset} {size}" for field, offset, size in zip(*columns, strict=True)]
    owners = np.repeat(np.arange(len(index)), np.diff(index.firsts)).tolist()
    named = zip(*columns, owners, strict=True)
    return [f"{field} {offset} {size} {keys[owner]}.{field}" for field, offset, size, owner in named]


def _is_word(text: str) -> bool:
    return text.split() == [text] and "\0" not in text


def read_dali(data: bytes, name: str = "") -> ShardIndex:
    r"""An index from its text, checked: it may come from anywhere.

    Parsed as columns: 0.4 µs a member instead of 1.3, which is a fifth of an epoch over samples of 1 kB.

    >>> index = read_dali(b"v1.2 1\njpg 512 600 a.jpg cls 2048 1 a.cls\n")
    >>> index.key(0), index.extents(0)[1]
    ('a', Extent(field='cls', offset=2048, size=1))
    >>> read_dali(b"v1.2 2\njpg 512 600 a.jpg\n", "a.idx")
    Traceback (most recent call last):
    webdataset.errors.FormatError: the index announces 2 samples and has 1 – a.idx – delete it and build it again
    """
    words_each, announced = _header(data, name)
    if not data.endswith(b"\n"):
        raise _malformed("the index ends in the middle of a line", name)
    words = _Words(data[data.index(b"\n") + 1 :])
    per_line = words.per_line()
    if len(per_line) != announced:
        raise _malformed(f"the index announces {announced} samples and has {len(per_line)}", name)
    if bool((per_line % words_each != 0).any()):
        line = int(np.flatnonzero(per_line % words_each)[0]) + 2
        raise _malformed(f"line {line} of the index: expected {words_each} words per field", name)
    offsets, sizes = (_numbers(words, slice(each, None, words_each), name) for each in (1, 2))
    members = slice(3 if words_each == 4 else 0, None, words_each)
    return _assemble(words, members, offsets, sizes, per_line // words_each, named=words_each == 4)


class _Words:
    """The words of a text and their offsets; a blank or the end of a line follows each."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.text = np.frombuffer(body, np.uint8)
        self.stops = np.flatnonzero((self.text == ord(" ")) | (self.text == ord("\n")))
        self.starts = np.append(0, self.stops + 1)[:-1]

    def per_line(self) -> Ints:
        """How many words each line has."""
        return np.diff(np.flatnonzero(self.text[self.stops] == ord("\n")), prepend=-1)

    def listed(self, which: slice) -> list[str]:
        """Some of the words, as objects."""
        return self.body.decode("utf-8", "surrogateescape").replace("\n", " ").split(" ")[:-1][which]

    def rows(self, which: slice) -> Bytes | None:
        """Some of the words, a row of bytes each, filled up with NULs; None if one is long or has NULs itself."""
        starts, lengths = self.starts[which], self.stops[which] - self.starts[which]
        longest = int(lengths.max(initial=0))
        if not 0 < longest <= _LONG or b"\0" in self.body:
            return None
        padded = np.frombuffer(self.body + bytes(longest), np.uint8)
        everywhere = np.lib.stride_tricks.as_strided(padded, (len(self.body), longest), (1, 1), writeable=False)
        rows: Bytes = everywhere[starts]
        rows *= np.arange(longest, dtype=np.uint8) < lengths[:, None]
        return rows


def count_dali(data: bytes, name: str = "") -> int:
    r"""How many samples an index has, from its first few bytes.

    >>> count_dali(b"v1.2 1000\njpg 512 60")
    1000
    """
    return _header(data, name)[1]


def _header(data: bytes, name: str) -> tuple[int, int]:
    words = data.partition(b"\n")[0][:64].decode("ascii", "replace").split(" ")
    if len(words) != 2 or words[0] not in _WORDS or not _is_number(words[1]):
        raise _malformed(f"expected 'v1.2 <samples>' at the start of the index, got {' '.join(words)[:40]!r}", name)
    return _WORDS[words[0]], int(words[1])


def _numbers(words: _Words, which: slice, name: str) -> Ints:
    stops, lengths = words.stops[which], words.stops[which] - words.starts[which]
    if len(lengths) and lengths.min() > 0 and lengths.max() <= _MOST_DIGITS:
        numbers = _from_digits(words.text, stops, lengths)
        if numbers is not None:
            return numbers
    wrong = next((word for word in words.listed(which) if not _is_number(word)), None)
    if wrong is not None:
        raise _malformed(f"expected an offset or a size in the index, got {wrong[:40]!r}", name)
    return np.zeros(0, np.int64)  # no samples


def _from_digits(text: Bytes, stops: Ints, lengths: Ints) -> Ints | None:
    """The numbers whose digits end before `stops` in a text; None if something there is not a digit."""
    numbers = np.zeros(len(stops), np.int64)
    for place in range(int(lengths.max(initial=0))):
        digits = text[np.maximum(stops - 1 - place, 0)] - np.uint8(_ZERO)  # bytes below "0" wrap to large numbers
        digits *= place < lengths
        if digits.max() > 9:
            return None
        numbers += digits.astype(np.int64) * 10**place
    return numbers


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS


def _assemble(words: _Words, which: slice, offsets: Ints, sizes: Ints, per_line: Ints, *, named: bool) -> ShardIndex:
    fields: dict[str, int] = {}
    rows = words.rows(which) if named else None
    found = None if rows is None else cut(rows, fields)
    firsts = starts_of(per_line)
    if found is not None:
        keys = found.keys(firsts[:-1])
        return ShardIndex(firsts, offsets, sizes, found.fields.astype(np.int32), tuple(fields), keys)
    texts = words.listed(which)
    # Members that belong to no sample have lines in other tools' files.
    split = [sample_and_field(text) if named else ("", text) for text in texts]
    kept = np.array([each is not None for each in split], dtype=bool)
    lines = np.repeat(np.arange(len(per_line)), per_line)[kept]
    parts = [each for each in split if each is not None]
    firsts = np.flatnonzero(np.diff(lines, prepend=-1))
    fields = {extension: number for number, extension in enumerate(dict.fromkeys(field for _, field in parts))}
    return ShardIndex(
        np.append(firsts, len(lines)),
        offsets[kept],
        sizes[kept],
        np.array([fields[field] for _, field in parts], dtype=np.int32),
        tuple(fields),
        Keys([parts[first][0] for first in firsts.tolist()] if named else ()),
    )


def _malformed(what: str, name: str) -> FormatError:
    return FormatError(what, Where(shard=name or None), hint="delete it and build it again")
