"""Headers with what stands before them: PAX and GNU extensions, read and applied to the header they are meant for."""

from __future__ import annotations

from typing import Protocol

from webdataset.errors import BadHeader, Where

from ._parse_header import BLOCK, GNU_LONG_LINK, GNU_LONG_NAME, PAX_GLOBAL, PAX_NEXT, Header, parse_header, text
from ._pax import LONGEST_EXTENSION, apply, matters, parse_pax

_GNU_KEYWORDS = {GNU_LONG_NAME: "path", GNU_LONG_LINK: "linkpath"}


class Source(Protocol):
    """Bytes that are taken in order."""

    @property
    def offset(self) -> int:
        """The offset of the next byte."""

    def take(self, count: int, what: str, /) -> bytes:
        """Exactly the next `count` bytes; `what` they are goes into the error if they are not there."""


class Extensions:
    """Reads headers; remembers the global PAX records of an archive.

    >>> import io, tarfile
    >>> from ._blocks import Blocks
    >>> block = tarfile.TarInfo("long/" * 30 + "a.txt").tobuf(tarfile.GNU_FORMAT)
    >>> Extensions(Blocks(io.BytesIO(block))).next_header().name == "long/" * 30 + "a.txt"
    True
    """

    __slots__ = ("_blocks", "_globals", "matter")

    def __init__(self, blocks: Source) -> None:
        self._blocks = blocks
        self.forget()

    def forget(self) -> None:
        """Another archive begins: global records end with theirs."""
        self._globals: dict[str, str] = {}
        self.matter = False  # whether global records change the members that follow

    def next_header(self) -> Header | None:
        """The next member's header as its extensions change it; None after a global header alone."""
        blocks = self._blocks
        changes: dict[str, str] = {}
        first = blocks.offset
        while True:
            offset = blocks.offset
            header = parse_header(blocks.take(BLOCK, "a header"), offset)
            if header.kind in _GNU_KEYWORDS:
                changes.setdefault(_GNU_KEYWORDS[header.kind], text(self._payload(header, offset)))
            elif header.kind in PAX_NEXT:
                # Of several extensions that say the same thing the first is right, as for tarfile.
                changes = {**parse_pax(self._payload(header, offset), offset), **changes}
            elif header.kind == PAX_GLOBAL:
                self._globals |= parse_pax(self._payload(header, offset), offset)
                self.matter = matters(self._globals)
                if not changes:
                    return None
            else:
                if changes or self.matter:
                    header = apply(header, {**self._globals, **changes}, first)
                # How tars older than POSIX say directory. A long name that was cut behind a slash is none, so this is
                # asked of the whole name.
                old_directory = header.kind == b"\0" and header.name.endswith("/")
                return header._replace(kind=b"5") if old_directory else header

    def _payload(self, header: Header, offset: int) -> bytes:
        if header.size > LONGEST_EXTENSION:
            raise BadHeader(
                f"an extended header claims {header.size:,} bytes",
                Where(offset=offset),
                hint="the shard is damaged; fetch or write it again",
            )
        payload = self._blocks.take(header.size, "an extended header")
        self._blocks.take(-header.size % BLOCK, "an extended header's padding")
        return payload
