"""Large frames travel in parts, each a message of its own.

ZeroMQ hands on a message when all of it has come, in fresh memory. Parts are put into memory that is used again while
the next ones are on their way, and each is a sign of life.

    [made, {…, parts: {"2": 77070336}}, frame 0, frame 1, nothing for frame 2]
    [part, {number, frame: 2, offset: 0}, data]   [part, {number, frame: 2, offset: 262144}, data]   …
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webdataset.errors import FormatError

from ._batch_memory import BatchMemory
from ._messages import Frames, checked, pack

# The data of a part, in bytes. Frames that are not larger stay in their message.
PART = 1 << 18


def split(kind: bytes, header: dict[str, Any], frames: Frames) -> Iterator[list[Any]]:
    """A message, and the parts of its large frames.

    >>> [len(message) for message in split(b"made", {"number": 1}, [b"small", bytes(PART + 1)])]
    [4, 3, 3]
    """
    views = [memoryview(frame).cast("B") if memoryview(frame).nbytes else memoryview(b"") for frame in frames]
    large = {number: view.nbytes for number, view in enumerate(views) if view.nbytes > PART}
    small = [b"" if number in large else frame for number, frame in enumerate(frames)]
    yield pack(kind, {**header, "parts": {str(number): size for number, size in large.items()}}, small)
    for number, size in large.items():
        for offset in range(0, size, PART):
            place = {"number": header["number"], "frame": number, "offset": offset}
            yield pack(b"part", place, [views[number][offset : offset + PART]])


class Parts:
    """A message whose large frames are coming.

    Args:
        header: of the message; it says which frames come in parts, and their sizes.
        frames: of the message.
        memory: where large frames are put.
        largest: how many bytes may come in parts.

    Raises:
        FormatError: what the header says is not possible.
    """

    def __init__(self, header: dict[str, Any], frames: Frames, memory: BatchMemory, largest: int) -> None:
        parts = header.get("parts", {})
        if not isinstance(parts, dict) or not all(type(size) is int and size > 0 for size in parts.values()):
            raise FormatError("not a message: the sizes of its parts are malformed")
        if sum(parts.values()) > largest:
            raise FormatError(f"not a message: parts of {sum(parts.values()):,} bytes")
        self.frames = list(frames)
        self._number = header["number"]
        self._order = [_frame_number(name, len(self.frames)) for name in parts]
        for number, size in zip(self._order, parts.values(), strict=True):
            self.frames[number] = memory.take(size)
        self._offset = 0  # in the frame that is coming
        self.size = sum(parts.values())

    @property
    def is_complete(self) -> bool:
        """Whether all parts have come."""
        return not self._order

    def add(self, header: dict[str, Any], data: Frames) -> None:
        """Put a part where it belongs.

        Raises:
            FormatError: it is not the next one.
        """
        number, frame, offset = checked(header, number=int, frame=int, offset=int)
        if self.is_complete or (number, frame, offset) != (self._number, self._order[0], self._offset):
            raise FormatError("not the part that comes next")
        target = self.frames[frame]
        stop = min(offset + PART, target.nbytes)
        if len(data) != 1 or memoryview(data[0]).nbytes != stop - offset:
            raise FormatError("a part has another size than the frame needs")
        target[offset:stop] = data[0]
        self._offset = stop
        if stop == target.nbytes:
            self._order.pop(0)
            self._offset = 0


def _frame_number(name: Any, count: int) -> int:
    if not isinstance(name, str) or not name.isdecimal() or not name.isascii() or len(name) > 9 or int(name) >= count:
        raise FormatError(f"not a message: there is no frame {name!r:.20}")
    return int(name)
