"""Headers together with the PAX and GNU extended headers before them, which change their names and sizes."""

from __future__ import annotations

from webdataset.errors import BadHeader, Where

from ._byte_window import Blocks
from ._parse_header import BLOCK, GNU_LONG_LINK, GNU_LONG_NAME, PAX_GLOBAL, PAX_NEXT, Header, parse_header, text
from ._pax_records import LONGEST_EXTENSION, apply, matters, parse_pax
from ._rewindable_bytes import HeldBytes

_GNU_KEYWORDS = {GNU_LONG_NAME: "path", GNU_LONG_LINK: "linkpath"}


class Extensions:
    """Reads headers; remembers the global PAX records of an archive.

    >>> import io, tarfile
    >>> from ._byte_window import Blocks
    >>> block = tarfile.TarInfo("long/" * 30 + "a.txt").tobuf(tarfile.GNU_FORMAT)
    >>> Extensions(Blocks(io.BytesIO(block))).next_header().name == "long/" * 30 + "a.txt"
    True
    """

    __slots__ = ("_blocks", "_global_size", "_globals", "_size", "matter")

    def __init__(self, blocks: Blocks | HeldBytes) -> None:
        self._blocks = blocks
        self.forget()

    def forget(self) -> None:
        """Forget the global records: another archive begins."""
        self._globals: dict[str, str] = {}
        self._global_size = 0
        self.matter: dict[str, str] = {}  # the global records that change the members that follow

    def next_header(self) -> Header | None:
        """Return the next member's header with its extensions applied; None after a global header alone."""
        blocks = self._blocks
        changes: dict[str, str] = {}
        first = blocks.offset
        self._size = 0
        while True:
            offset = blocks.offset
            header = parse_header(blocks.take(BLOCK, "a header"), offset)
            if header.kind in _GNU_KEYWORDS:
                changes.setdefault(_GNU_KEYWORDS[header.kind], text(self._payload(header, offset)))
            elif header.kind in PAX_NEXT:
                # Of several extensions with the same keyword the first one counts, as in tarfile.
                for keyword, value in parse_pax(self._payload(header, offset), offset).items():
                    changes.setdefault(keyword, value)
            elif header.kind == PAX_GLOBAL:
                self._add_globals(parse_pax(self._payload(header, offset), offset), offset)
                if not changes:
                    return None
            else:
                if changes or self.matter:
                    header = apply(header, {**self.matter, **changes}, first)
                # How tars older than POSIX mark a directory. A long name that was cut after a slash is not one, so the
                # whole name is checked.
                old_directory = header.kind == b"\0" and header.name.endswith("/")
                return header._replace(kind=b"5") if old_directory else header

    def _add_globals(self, records: dict[str, str], offset: int) -> None:
        for keyword, value in records.items():
            self._global_size += len(value) - len(self._globals.get(keyword, "")) + len(keyword)
            self._globals[keyword] = value
        self._check(self._global_size, "the global PAX records of an archive take", offset)
        self.matter |= matters(records)

    def _check(self, size: int, what: str, offset: int) -> None:
        if size > LONGEST_EXTENSION:
            raise BadHeader(
                f"{what} {size:,} bytes, at most {LONGEST_EXTENSION:,} are allowed",
                Where(offset=offset),
                hint="the shard is damaged or hostile; fetch or write it again",
            )

    def _payload(self, header: Header, offset: int) -> bytes:
        self._size += BLOCK + header.size
        self._check(self._size, "the extended headers of one member take", offset)
        payload = self._blocks.take(header.size, "an extended header")
        self._blocks.take(-header.size % BLOCK, "an extended header's padding")
        return payload
