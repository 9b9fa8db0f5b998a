"""The messages of trainers and workers: a kind, a header in msgpack, and frames.

    trainer → worker    hello, make, ping, bye
    worker → trainer    offer, made, part, failed, refused, busy, pong

A request has a number. It gets exactly one answer: made, failed, refused or busy. The parts of large arrays follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from webdataset.errors import FormatError, StateError
from webdataset.flow import Json
from webdataset.order import Remaining

from ._item_frames import WireOptions
from ._serve_packages import load_msgpack

# Of the protocol. A worker of another version is refused.
PROTOCOL = 3
# No frame from a worker is larger, since large ones come in parts. A request is a few integers, and what remains of an
# epoch: after a resume from very many ranks and workers that may be many ranges.
LARGEST_HEADER = 64 << 20
LARGEST_REQUEST = 4 << 20

Frames = Sequence[Any]


def pack(kind: bytes, header: dict[str, Any], frames: Frames = ()) -> list[Any]:
    """A message.

    >>> len(pack(b"ping", {"number": 1}))
    2
    """
    return [kind, load_msgpack().packb(header), *frames]


def unpack(message: Frames) -> tuple[bytes, dict[str, Any], Frames]:
    """Kind, header and frames of a message.

    Raises:
        FormatError: it is not a message of this protocol.
    """
    if len(message) < 2:
        raise FormatError(f"not a message: {len(message)} frames")
    kind, packed = bytes(message[0]) if len(message[0]) < 16 else b"", memoryview(message[1])
    if packed.nbytes > LARGEST_HEADER:
        raise FormatError(f"not a message: a header of {packed.nbytes:,} bytes")
    try:
        header = load_msgpack().unpackb(packed, strict_map_key=False)
    except Exception as error:  # it raises several kinds, also of its own
        raise FormatError(f"not a message: {error}") from error
    if not isinstance(header, dict):
        raise FormatError(f"not a message: the header is {type(header).__name__}")
    return kind, header, message[2:]


def checked(header: dict[str, Any], **types: Any) -> list[Any]:
    """The values of a header, each of its type.

    >>> checked({"number": 3}, number=int)
    [3]
    >>> checked({"number": "x"}, number=int)
    Traceback (most recent call last):
    webdataset.errors.FormatError: not a message: expected int for 'number', got 'x'
    """
    for name, kind in types.items():
        value = header.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise FormatError(f"not a message: expected {kind.__name__} for {name!r}, got {value!r:.40}")
    return [header[name] for name in types]


@dataclass(frozen=True)
class Request:
    """Some consecutive steps of one rank.

    Attributes:
        expects: the digest of what the worker must serve.
        epoch: the number of the pass.
        remaining: what remained of the epoch when the rank began.
        rank: of the trainer.
        ranks: how many trainers share the epoch.
        batch: how many samples of a step are this rank's.
        start: the first step, counted from the beginning of what remained.
        stop: the step after the last.
        wire: how arrays are sent.
    """

    expects: str
    epoch: int
    remaining: Remaining
    rank: int
    ranks: int
    batch: int
    start: int
    stop: int
    wire: WireOptions = field(default_factory=WireOptions)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.stop - self.start

    def to_json(self) -> dict[str, Json]:
        """The request as a header."""
        header = {name: getattr(self, name) for name in ("expects", "epoch", "rank", "ranks", "batch", "start", "stop")}
        return header | {"remaining": self.remaining.to_json(), "wire": asdict(self.wire)}

    @classmethod
    def from_json(cls, header: dict[str, Any]) -> Self:
        """Parse a request.

        Raises:
            FormatError: it is not a request.
        """
        numbers = ("epoch", "rank", "ranks", "batch", "start", "stop")
        expects, remaining, wire = checked(header, expects=str, remaining=dict, wire=dict)
        epoch, rank, ranks, batch, start, stop = checked(header, **dict.fromkeys(numbers, int))
        if not (0 <= rank < ranks and batch >= 1 and 0 <= start < stop and epoch >= 0):
            raise FormatError(f"not a request: rank {rank} of {ranks}, batches of {batch}, steps {start} to {stop}")
        float16, level = checked(wire, float16=bool, zstd=int)
        if not 0 <= level <= 19:
            raise FormatError(f"not a request: compression level {level}")
        try:
            rest = Remaining.from_json(remaining)
        except (StateError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError("not a request: what remains of the epoch is malformed") from error
        return cls(expects, epoch, rest, rank, ranks, batch, start, stop, WireOptions(float16, level))
