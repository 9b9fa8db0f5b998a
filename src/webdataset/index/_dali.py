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

from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any

import numpy as np

from webdataset.errors import EncodingError, FormatError, Where

from ._names import split_name
from ._shard_index import Keys, ShardIndex

_WORDS = {"v1.2": 4, "v1.1": 3}
# Any offset of a real archive has fewer digits; more would not fit 64 bits.
_MOST_DIGITS = 18


def write_dali(index: ShardIndex) -> bytes:
    """The text of an index.

    >>> from ._build import build
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
    lines = _named_lines(index) if named else _bare_lines(index)
    return f"v1.{2 if named else 1} {len(index)}\n{lines}".encode("utf-8", "surrogateescape")


def _named_lines(index: ShardIndex) -> str:
    # One expression over columns: 0.6 µs per member; three times that with an object for each.
    keys = chain.from_iterable(map(repeat, index.keys, np.diff(index.firsts).tolist()))
    fields = map(index.fields.__getitem__, index.field_numbers.tolist())
    columns = zip(keys, fields, index.offsets.tolist(), index.sizes.tolist(), _ends(index), strict=True)
    return "".join([f"{field} {offset} {size} {key}.{field}{end}" for key, field, offset, size, end in columns])


def _bare_lines(index: ShardIndex) -> str:
    fields = map(index.fields.__getitem__, index.field_numbers.tolist())
    columns = zip(fields, index.offsets.tolist(), index.sizes.tolist(), _ends(index), strict=True)
    return "".join([f"{field} {offset} {size}{end}" for field, offset, size, end in columns])


def _ends(index: ShardIndex) -> list[str]:
    """What stands behind each member: a blank, or the end of its sample's line."""
    ends = [" "] * len(index.offsets)
    for last in (index.firsts[1:] - 1).tolist():
        ends[last] = "\n"
    return ends


def _are_words(texts: Iterable[str]) -> bool:
    """Whether all of them are words; asked for all at once."""
    listed = list(texts)
    joined = "".join(listed)
    return all(listed) and (not listed or joined.split() == [joined])


def _is_word(text: str) -> bool:
    return len(text.split()) == 1 and not any(character.isspace() for character in text)


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
    body = data[data.index(b"\n") + 1 :]
    per_line = _words_per_line(body)
    if len(per_line) != announced:
        raise _malformed(f"the index announces {announced} samples and has {len(per_line)}", name)
    if bool((per_line % words_each != 0).any()):
        line = int(np.flatnonzero(per_line % words_each)[0]) + 2
        raise _malformed(f"line {line} of the index has not {words_each} words per field", name)
    words = body.decode("utf-8", "surrogateescape").replace("\n", " ").split(" ")[:-1]
    columns = [words[each::words_each] for each in range(words_each)]
    offsets, sizes = (_numbers(column, name) for column in columns[1:3])
    names = columns[3] if words_each == 4 else None
    return _assemble(columns[0], offsets, sizes, names, per_line // words_each)


def _words_per_line(body: bytes) -> Any:
    array = np.frombuffer(body, np.uint8)
    ends = np.flatnonzero(array == ord("\n"))
    blanks = np.cumsum(array == ord(" "), dtype=np.int64)
    return np.diff(blanks[ends], prepend=0) + 1 if len(ends) else ends


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


def _numbers(words: list[str], name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    everything = "".join(words)
    digits = everything.isascii() and everything.isdigit() and all(words)
    if words and not (digits and max(map(len, words)) <= _MOST_DIGITS):
        word = next((word for word in words if not _is_number(word)), "nothing")
        raise _malformed(f"the index has {word[:40]!r} where an offset or a size belongs", name)
    return np.array(list(map(int, words)), dtype=np.int64)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS


def _assemble(extensions: list[str], offsets: Any, sizes: Any, names: list[str] | None, per_line: Any) -> ShardIndex:
    lines = np.repeat(np.arange(len(per_line)), per_line)
    member_keys: list[str] = []
    if names is not None:
        # Members that belong to no sample have lines in other tools' files.
        split = [split_name(name) for name in names]
        kept = np.array([each is not None for each in split], dtype=bool)
        offsets, sizes, lines = offsets[kept], sizes[kept], lines[kept]
        member_keys = [each[0] for each in split if each is not None]
        extensions = [each[1] for each in split if each is not None]
    firsts = np.flatnonzero(np.diff(lines, prepend=-1))
    fields = {extension: number for number, extension in enumerate(dict.fromkeys(extensions))}
    return ShardIndex(
        np.append(firsts, len(lines)).astype(np.int64),
        offsets,
        sizes,
        np.array([fields[extension] for extension in extensions], dtype=np.int32),
        tuple(fields),
        Keys([member_keys[first] for first in firsts.tolist()] if member_keys else ()),
    )


def _malformed(what: str, name: str) -> FormatError:
    return FormatError(what, Where(shard=name or None), hint="delete it and build it again")
