"""NVIDIA's text index of a webdataset shard, as `wds2idx` writes it and DALI reads it.

    v1.2 2
    jpg 512 600 a/x0.jpg cls 2048 1 a/x0.cls
    jpg 3072 10 a/x1.jpg

A line per sample, four words per field: extension, offset of the data, size, member name (version 1.1: without the
name). Words are separated by blanks and cannot be quoted, so a shard with blanks in its names gets version 1.1, and one
with blanks in an extension none. The file is `wds2idx`'s byte for byte wherever that tool is right; for GNU long names
it writes the offset of the wrong block, and members that belong to no sample get lines: here not.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from webdataset.errors import EncodingError, FormatError, Where

from ._decimal_columns import from_digits, to_digits
from ._header_columns import Bytes
from ._member_names import sample_and_field
from ._shard_index import Ints, Keys, ShardIndex
from ._split_columns import cut

_WORDS = {"v1.2": 4, "v1.1": 3}
# Any offset of a real archive has fewer digits; more would not fit 64 bits.
_MOST_DIGITS = 18
# Longer names are not put into a matrix: one of a megabyte would make all rows that long.
_LONG = 128
# So many members are written at a time, in rows that stay in the cache: 0.1 µs each, 0.66 µs one by one.
_AT_A_TIME = 1 << 13
_MOST_BYTES = 1 << 24


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
    named = len(index.keys) == len(index) and _are_words(index.keys)
    lines = [_lines(index, samples, named=named) for samples in _portions(index)]
    return b"".join([f"v1.{2 if named else 1} {len(index)}\n".encode(), *lines])


def _portions(index: ShardIndex) -> list[slice]:
    """Samples with about as many members as are written at a time; fewer if a name is long, as all rows will be."""
    longest = int(index.keys.lengths.max(initial=0)) + max(map(len, index.fields), default=0)
    step = max(1, min(_AT_A_TIME, _MOST_BYTES // (longest + 1)))
    bounds = np.unique(np.searchsorted(index.firsts, np.arange(0, len(index.offsets), step))).tolist()
    return [slice(start, stop) for start, stop in pairwise([*bounds, len(index)]) if start < stop]


def _lines(index: ShardIndex, samples: slice, *, named: bool) -> bytes:
    """The lines of some samples: a row of bytes per member, filled up with NULs, which are left out at the end."""
    firsts = index.firsts[samples.start : samples.stop + 1]
    members = slice(int(firsts[0]), int(firsts[-1]))
    extensions = _extensions(index, members)
    columns = [extensions, to_digits(index.offsets[members]), to_digits(index.sizes[members])]
    if named:
        keys = index.keys.rows(samples).repeat(np.diff(firsts), axis=0)
        columns.append(np.hstack([keys, np.full((len(keys), 1), ord("."), np.uint8), extensions]))
    rows = np.zeros((len(extensions), sum(column.shape[1] + 1 for column in columns)), np.uint8)
    at = 0
    for column in columns:
        rows[:, at : at + column.shape[1]] = column
        at += column.shape[1] + 1
        rows[:, at - 1] = ord(" ")
    rows[firsts[1:] - 1 - members.start, -1] = ord("\n")
    return bytes(rows[rows != 0])


def _extensions(index: ShardIndex, members: slice) -> Bytes:
    """The field names of some members, a row of bytes each."""
    numbers = index.field_numbers[members]
    used = np.flatnonzero(np.bincount(numbers))
    names = [index.fields[number].encode("utf-8", "surrogateescape") for number in used.tolist()]
    width = max(map(len, names))
    table = np.array(names, f"S{width}").view(np.uint8).reshape(-1, width)
    return table[np.searchsorted(used, numbers)]


def _are_words(keys: Keys) -> bool:
    """Whether all of them are words; asked for all at once."""
    return bool((keys.lengths > 0).all()) and (not len(keys) or _is_word(keys.text))


def _is_word(text: str) -> bool:
    return text.split() == [text] and "\0" not in text


def read_dali(data: bytes, name: str = "") -> ShardIndex:
    r"""An index out of its text, checked: it may come from anywhere.

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
        raise _malformed(f"line {line} of the index has not {words_each} words per field", name)
    offsets, sizes = (_numbers(words, slice(each, None, words_each), name) for each in (1, 2))
    members = slice(3 if words_each == 4 else 0, None, words_each)
    return _assemble(words, members, offsets, sizes, per_line // words_each, named=words_each == 4)


class _Words:
    """The words of a text and where they stand; a blank or the end of a line follows each."""

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
        raise _malformed(f"the index begins with {' '.join(words)[:40]!r} and not with 'v1.2 <samples>'", name)
    return _WORDS[words[0]], int(words[1])


def _numbers(words: _Words, which: slice, name: str) -> Ints:
    stops, lengths = words.stops[which], words.stops[which] - words.starts[which]
    if len(lengths) and lengths.min() > 0 and lengths.max() <= _MOST_DIGITS:
        numbers = from_digits(words.text, stops, lengths)
        if numbers is not None:
            return numbers
    wrong = next((word for word in words.listed(which) if not _is_number(word)), None)
    if wrong is not None:
        raise _malformed(f"the index has {wrong[:40]!r} where an offset or a size belongs", name)
    return np.zeros(0, np.int64)  # no samples


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS


def _assemble(words: _Words, which: slice, offsets: Ints, sizes: Ints, per_line: Ints, *, named: bool) -> ShardIndex:
    fields: dict[str, int] = {}
    rows = words.rows(which) if named else None
    found = None if rows is None else cut(rows, fields)
    firsts = np.append(0, np.cumsum(per_line))
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
