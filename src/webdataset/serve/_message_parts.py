"""Large frames are sent in parts, each a message of its own.

ZeroMQ delivers a message when all of it has arrived, in new memory. A part is copied into memory that is reused while
it is still in the cache of the CPU and the next parts are being sent, and each part shows that the worker is alive.

    [made, {…, parts: [[2, 77070336]]}, frame 0, frame 1, nothing for frame 2]
    [part number 2 0, data]   [part number 2 524288, data]   …
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from webdataset.errors import FormatError

from ._batch_memory import BatchMemory
from ._messages import Frames, pack

# The data of a part, in bytes. Frames that are not larger stay in their message.
PART = 1 << 19
# The limit of all parts of an answer, in bytes.
LARGEST_ANSWER = 1 << 32
# The first frame of a part: the word, the number of the request, the number of the frame, and the offset in it.
_PLACE = struct.Struct("<4sqqq")


def split(kind: bytes, header: dict[str, Any], frames: Frames) -> Iterator[list[Any]]:
    """A message, and the parts of its large frames.

    >>> [len(message) for message in split(b"made", {"number": 1}, [b"small", bytes(PART + 1)])]
    [4, 2, 2]
    """
    views = [memoryview(frame).cast("B") if memoryview(frame).nbytes else memoryview(b"") for frame in frames]
    large = [[number, view.nbytes] for number, view in enumerate(views) if view.nbytes > PART]
    small = [view if view.nbytes <= PART else b"" for view in views]
    yield pack(kind, {**header, "parts": large}, small)
    for number, size in large:
        for offset in range(0, size, PART):
            yield [_PLACE.pack(b"part", header["number"], number, offset), views[number][offset : offset + PART]]


def is_part(first: Any) -> bool:
    """Whether a message with this first frame is a part."""
    return len(first) == _PLACE.size and bytes(first[:4]) == b"part"


class Parts:
    """A message whose large frames are being received.

    Args:
        header: of the message; it has the numbers and sizes of the frames that are sent in parts.
        frames: of the message.
        memory: where large frames are put.

    Raises:
        FormatError: the header is invalid.
    """

    def __init__(self, header: dict[str, Any], frames: Frames, memory: BatchMemory) -> None:
        parts = header.get("parts", [])
        if not isinstance(parts, list) or not all(_is_size(each, len(frames)) for each in parts):
            raise FormatError("not a message: the sizes of its parts are malformed")
        self.size: int = sum(size for _, size in parts)
        if self.size > LARGEST_ANSWER:
            raise FormatError(f"an answer of {self.size:,} bytes is too large: the limit is {LARGEST_ANSWER:,}")
        self.frames = list(frames)
        for number, size in parts:
            self.frames[number] = memory.take(size)
        self._places = (
            (_PLACE.pack(b"part", header["number"], number, offset), self.frames[number][offset : offset + PART])
            for number, size in parts
            for offset in range(0, size, PART)
        )
        self._next = next(self._places, None)

    @property
    def is_complete(self) -> bool:
        """Whether all parts were received."""
        return self._next is None

    def place(self, first: bytes) -> Any:
        """The memory for the data of the next part, which must be the one with this first frame.

        Raises:
            FormatError: it is another one.
        """
        if self._next is None or self._next[0] != first:
            raise FormatError("not the part that comes next")
        target = self._next[1]
        self._next = next(self._places, None)
        return target


def _is_size(value: Any, frames: int) -> bool:
    """Whether a value is the number of a frame and its size."""
    if not isinstance(value, list) or [type(each) for each in value] != [int, int]:
        return False
    number, size = value
    return bool(0 <= number < frames and size > 0)
