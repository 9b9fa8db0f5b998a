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

from collections import defaultdict
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from webdataset.errors import EncodingError, FormatError, Where
from webdataset.names import is_meta
from webdataset.order import starts_of

from ._shard_index import Ints, Keys, ShardIndex

_BLANK, _NEWLINE, _SLASH, _DOT, _UNDERSCORE = b" \n/._"
_WORDS = {"v1.2": 4, "v1.1": 3}
# Any offset of a real archive has fewer digits; more would not fit 64 bits.
_MOST_DIGITS = 18
# Masks that keep the first 0 to 8 of eight bytes.
_LOW_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], "<u8")


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

    >>> index = read_dali(b"v1.2 1\njpg 512 600 a.jpg cls 2048 1 a.cls\n")
    >>> index.key(0), index.extents(0)[1]
    ('a', Extent(field='cls', offset=2048, size=1))
    >>> read_dali(b"v1.2 2\njpg 512 600 a.jpg\n", "a.idx")
    Traceback (most recent call last):
    webdataset.errors.FormatError: the index announces 2 samples and has 1 – a.idx – delete it and build it again
    """
    words_each, announced = _header(data, name)
    if not data.endswith(b"\n") or b"\0" in data:
        raise _malformed("the index ends in the middle of a line, or has a zero byte", name)
    text = np.frombuffer(data, np.uint8)[data.index(b"\n") + 1 :]
    stops = np.flatnonzero((text == _BLANK) | (text == _NEWLINE))
    counts = np.diff(np.flatnonzero(text[stops] == _NEWLINE), prepend=-1)
    if len(counts) != announced:
        raise _malformed(f"the index announces {announced} samples and has {len(counts)}", name)
    if bool((counts % words_each != 0).any()):
        line = int(np.flatnonzero(counts % words_each)[0]) + 2
        raise _malformed(f"line {line} of the index: expected {words_each} words per field", name)
    starts = np.append(0, stops + 1)[:-1]
    columns = [_Words(text, starts[each::words_each], stops[each::words_each]) for each in range(words_each)]
    offsets, sizes = (_numbers(words, name) for words in columns[1:3])
    owners = np.repeat(np.arange(len(counts)), counts // words_each)
    if words_each == 3:
        return _assemble(owners, offsets, sizes, columns[0], None)
    keys, fields, kept = _split(columns[3])
    if not kept.all():  # members that belong to no sample have lines in other tools' files
        keys, fields = keys[kept], fields[kept]
        owners, offsets, sizes = owners[kept], offsets[kept], sizes[kept]
    wrong = _like_previous(keys) != (np.diff(owners) == 0)
    if bool(wrong.any()):
        line = int(owners[1:][wrong][0]) + 2
        raise _malformed(f"line {line} of the index: a line has all members of one sample, and no others", name)
    return _assemble(owners, offsets, sizes, fields, keys)


@dataclass(frozen=True)
class _Words:
    """Words of a text: where each starts and stops. A blank or the end of a line follows."""

    text: NDArray[np.uint8]
    starts: Ints
    stops: Ints

    def __getitem__(self, which: Any) -> _Words:
        return _Words(self.text, self.starts[which], self.stops[which])

    def listed(self) -> list[str]:
        """The words as objects."""
        text = _Words(self.text, self.starts, self.stops + 1).joined().decode("utf-8", "surrogateescape")
        return text.replace("\n", " ").split(" ")[:-1]

    def joined(self) -> bytes:
        """The bytes of all words."""
        lengths = self.stops - self.starts
        longest = int(lengths.max(initial=0))
        if longest and int(lengths.min()) == longest:  # saves 0.1 µs a word
            return sliding_window_view(self.text, longest)[self.starts].tobytes()
        moved = self.starts - starts_of(lengths)[:-1]
        return bytes(self.text[np.arange(lengths.sum()) + np.repeat(moved, lengths)])


def _split(names: _Words) -> tuple[_Words, _Words, NDArray[np.bool_]]:
    """Keys and fields, by the rule of `names.split_name`, and which members belong to samples."""
    text, starts, stops = names.text, names.starts, names.stops
    slashes, dots = (np.flatnonzero(text == mark) for mark in (_SLASH, _DOT))
    slashes, dots = np.append(-1, slashes), np.append(dots, len(text))
    bases = np.maximum(starts, slashes[np.searchsorted(slashes, stops) - 1] + 1)
    dots = dots[np.searchsorted(dots, bases)]
    kept = (bases < dots) & (dots < stops)
    dots = np.minimum(dots, stops)
    for row in np.flatnonzero(kept & (text[starts] == _UNDERSCORE)).tolist():
        kept[row] = not is_meta(names[row : row + 1].listed()[0])
    return _Words(text, starts, dots), _Words(text, dots + 1, stops), kept


def _like_previous(words: _Words) -> NDArray[np.bool_]:
    """Whether each word but the first is the same as the one before it. Eight bytes at a time: no step per word."""
    lengths = words.stops - words.starts
    same: NDArray[np.bool_] = lengths[1:] == lengths[:-1]
    eight = sliding_window_view(np.append(words.text, np.zeros(8, np.uint8)), 8)
    for place in range(0, int(lengths.max(initial=0)), 8):
        found = eight[np.minimum(words.starts + place, len(words.text))].view("<u8")[:, 0]
        found &= _LOW_BYTES[np.clip(lengths - place, 0, 8)]
        same &= found[1:] == found[:-1]
    return same


def _assemble(owners: Ints, offsets: Ints, sizes: Ints, fields: _Words, keys: _Words | None) -> ShardIndex:
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    every = fields.listed()
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    first_keys = None if keys is None else keys[firsts]
    return ShardIndex(
        np.append(firsts, len(owners)),
        offsets,
        sizes,
        np.fromiter(map(numbers.__getitem__, every), np.int32, len(every)),
        tuple(numbers),
        Keys() if first_keys is None else Keys.of_text(first_keys.joined(), first_keys.stops - first_keys.starts),
    )


def _numbers(words: _Words, name: str) -> Ints:
    lengths = words.stops - words.starts
    numbers = np.zeros(len(lengths), np.int64)
    wrong = (lengths == 0) | (lengths > _MOST_DIGITS)
    for place in range(min(int(lengths.max(initial=0)), _MOST_DIGITS)):
        digits = words.text[words.stops - 1 - place] - np.uint8(ord("0"))  # what is below "0" becomes large
        digits *= place < lengths
        wrong |= digits > 9
        numbers += digits * np.int64(10**place)
    if bool(wrong.any()):
        raise _malformed(f"expected an offset or a size in the index, got {words[wrong].listed()[0][:40]!r}", name)
    return numbers


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


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS


def _malformed(what: str, name: str) -> FormatError:
    return FormatError(what, Where(shard=name or None), hint="delete it and build it again")
