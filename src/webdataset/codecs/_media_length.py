"""Audio, video and image files that say how long they are: an error where a part of them is missing.

The libraries that decode them return what is left: a WAV or a video that was cut in half is half as long. A file of
unknown length (written to a pipe, or a format without a length: ADTS, MPEG streams, H.264, MP3 without a Xing header)
is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from webdataset.errors import FormatError

_TO_A_PIPE = 0x7FFFF000  # sizes from here on are written by programs that cannot know: sox this one, FFmpeg 0xffffffff
_LAST_PAGE = 4
_JPEG2000_END = b"\xff\xd9"
_XING = re.compile(rb"(?:Xing|Info)...(.)", re.DOTALL)  # and the flags of what follows


def check_length(data: bytes) -> None:
    r"""Raise an error if a file is shorter than it says.

    >>> check_length(b"RIFF\x28\0\0\0WAVEdata\x04\0\0\0abc")
    Traceback (most recent call last):
    webdataset.errors.FormatError: the file is truncated: expected at least 24 bytes, got 23 – copy or write it again

    Args:
        data: any bytes; those of a format that is not known here pass.
    """
    data = bytes(data)
    for start, magic, stated_end in _FORMATS:
        if data[start : start + len(magic)] == magic:
            end = stated_end(data)
            if end > len(data):
                what = f"the file is truncated: expected at least {end:,} bytes, got {len(data):,}"
                raise FormatError(what, hint="copy or write it again")
            return


def counts_frames(data: bytes) -> bool:
    """Whether an MP3 begins with a Xing header that has the number of its frames; otherwise libsndfile guesses it."""
    tag = sum(size << 7 * place for place, size in enumerate(reversed(data[6:10]))) + 10 if data[:3] == b"ID3" else 0
    found = _XING.search(data[tag : tag + 64])
    return found is not None and bool(found[1][0] & 1)


def _riff_end(data: bytes) -> int:
    """Of WAV and AVI: the end of the last chunk of samples. What follows it may be missing."""
    order: Literal["little", "big"] = "big" if data[:4] == b"RIFX" else "little"
    at, end = 12, len(data) + 1
    while at + 12 <= len(data) or data[at : at + 4] == b"data":
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], order)
        if name == b"RIFF":  # a large AVI is several
            at += 12
            continue
        at += 8 + size
        if name == b"data":
            return 0 if size >= _TO_A_PIPE else at
        if data[at - size : at - size + 4] == b"movi":
            end = 0 if size >= _TO_A_PIPE else at
        at += size % 2
    return end


def _boxes_end(data: bytes) -> int:
    """Of MP4 and its relatives: the end of the last box that must be complete."""
    at = end = 0
    while at < len(data):
        size, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if len(name) < 4:
            return at + 8
        if size == 1:
            size = max(16, int.from_bytes(data[at + 8 : at + 16], "big"))
        if size < 8:  # 0: to the end of the file
            break
        at += size
        if name in {b"moov", b"moof", b"mdat"}:
            end = at
    return end


def _ebml_end(data: bytes) -> int:
    """Of Matroska and WebM: the end of the last element; those of unknown size consist of further elements."""
    at = 0
    while at < len(data) and data[at]:
        at += 9 - data[at].bit_length()
        width = 9 - data[at].bit_length() if at < len(data) else 1
        unknown = (1 << 7 * width) - 1
        size = int.from_bytes(data[at : at + width], "big") & unknown
        at += width + (0 if size == unknown else size)
    return at


def _asf_end(data: bytes) -> int:
    """Of WMA and WMV: the end of the second object, which has the data; the index that follows may be missing."""
    at = 0
    for _ in range(2):
        at += max(24, int.from_bytes(data[at + 16 : at + 24], "little"))
    return at


def _ogg_end(data: bytes) -> int:
    """Of Ogg: the end of the last page; each stream has a page that is marked as its last."""
    at = 0
    unfinished: set[bytes] = set()
    while data[at : at + 4] == b"OggS":
        header = data[at : at + 27]
        if len(header) < 27:
            return at + 27
        at += 27 + header[26] + sum(data[at + 27 : at + 27 + header[26]])
        (unfinished.discard if header[5] & _LAST_PAGE else unfinished.add)(header[14:18])
    return max(at, len(data) + 1) if unfinished else at


def _jpeg2000_end(data: bytes) -> int:
    return 0 if _JPEG2000_END in data else len(data) + 1


def _sox_end(data: bytes) -> int:
    """A header, its length, and how many samples of 4 bytes."""
    return 4 + int.from_bytes(data[4:8], "little") + 4 * int.from_bytes(data[8:16], "little")


# Where in a file which bytes tell the format, and the function that tells where its data ends.
_FORMATS: tuple[tuple[int, bytes, Callable[[bytes], int]], ...] = (
    (8, b"WAVE", _riff_end),
    (8, b"AVI ", _riff_end),
    *((4, name, _boxes_end) for name in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")),
    (0, b"\x1a\x45\xdf\xa3", _ebml_end),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", _asf_end),
    (0, b"OggS", _ogg_end),
    (0, b"\xff\x4f\xff\x51", _jpeg2000_end),
    (0, b"\0\0\0\x0cjP  ", _jpeg2000_end),
    (0, b".SoX", _sox_end),
)
