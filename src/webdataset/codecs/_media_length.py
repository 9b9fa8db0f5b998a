"""Check that audio, video and image files are as long as they state.

The libraries that decode them return what is left of a truncated file: a WAV or a video that was cut in half is half as
long. Files of unknown length pass (written to a pipe, or a format without a length: ADTS, MPEG streams, H.264, MP3
without a Xing header).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from webdataset.errors import FormatError

_TO_A_PIPE = 0x7FFFF000  # larger sizes mean that the size was unknown: sox writes this one, FFmpeg 0xffffffff
_LAST_PAGE = 4
_JPEG2000_END = b"\xff\xd9"
_XING = re.compile(rb"(?:Xing|Info)...(.)", re.DOTALL)  # and the flags of what follows


def check_length(data: bytes) -> None:
    r"""Raise an error if a file is shorter than it states.

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
    """The end of the last chunk of samples in a WAV or AVI file; chunks after it may be missing."""
    order: Literal["little", "big"] = "big" if data[:4] == b"RIFX" else "little"
    offset, end = 12, len(data) + 1
    while offset + 12 <= len(data) or data[offset : offset + 4] == b"data":
        name, size = data[offset : offset + 4], int.from_bytes(data[offset + 4 : offset + 8], order)
        if name == b"RIFF":  # a large AVI is several
            offset += 12
            continue
        offset += 8 + size
        if name == b"data":
            return 0 if size >= _TO_A_PIPE else offset
        if data[offset - size : offset - size + 4] == b"movi":
            end = 0 if size >= _TO_A_PIPE else offset
        offset += size % 2
    return end


def _boxes_end(data: bytes) -> int:
    """The end of the last box that must be complete, in MP4 and related formats."""
    offset = end = 0
    while offset < len(data):
        size, name = int.from_bytes(data[offset : offset + 4], "big"), data[offset + 4 : offset + 8]
        if len(name) < 4:
            return offset + 8
        if size == 1:
            size = max(16, int.from_bytes(data[offset + 8 : offset + 16], "big"))
        if size < 8:  # 0: to the end of the file
            break
        offset += size
        if name in {b"moov", b"moof", b"mdat"}:
            end = offset
    return end


def _ebml_end(data: bytes) -> int:
    """The end of the last element in Matroska and WebM; an element of unknown size consists of further elements."""
    offset = 0
    while offset < len(data) and data[offset]:
        offset += 9 - data[offset].bit_length()
        width = 9 - data[offset].bit_length() if offset < len(data) else 1
        unknown = (1 << 7 * width) - 1
        size = int.from_bytes(data[offset : offset + width], "big") & unknown
        offset += width + (0 if size == unknown else size)
    return offset


def _asf_end(data: bytes) -> int:
    """The end of the second object in WMA and WMV, which has the data; the index after it may be missing."""
    offset = 0
    for _ in range(2):
        offset += max(24, int.from_bytes(data[offset + 16 : offset + 24], "little"))
    return offset


def _ogg_end(data: bytes) -> int:
    """The end of the last page in Ogg; each stream has a page that is marked as its last."""
    offset = 0
    unfinished: set[bytes] = set()
    while data[offset : offset + 4] == b"OggS":
        header = data[offset : offset + 27]
        if len(header) < 27:
            return offset + 27
        offset += 27 + header[26] + sum(data[offset + 27 : offset + 27 + header[26]])
        (unfinished.discard if header[5] & _LAST_PAGE else unfinished.add)(header[14:18])
    return max(offset, len(data) + 1) if unfinished else offset


def _jpeg2000_end(data: bytes) -> int:
    return 0 if _JPEG2000_END in data else len(data) + 1


def _sox_end(data: bytes) -> int:
    """A header, its length, and how many samples of 4 bytes."""
    return 4 + int.from_bytes(data[4:8], "little") + 4 * int.from_bytes(data[8:16], "little")


# (offset, the bytes there that identify a format, the function that returns the offset of the end of its data)
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
