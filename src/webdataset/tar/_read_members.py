"""A stream → members, in runs: plain ones by `_scan_window`, all others one by one, with the same result.

Rules:

1. The checksum of a header is always verified.
2. An archive ends with two blocks of zeros. Anything else is a truncated archive and an error, unless `strict` is off.
3. After the end there may be zeros, or the next archive (`cat a.tar b.tar`), and nothing else.
4. A member that is not a file is skipped (directories, devices) or reported (links), never guessed.
"""

from __future__ import annotations

import io
import math
import mmap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from webdataset.decompress import DECOMPRESS_LIMIT, Unpacked, find_compression, too_large
from webdataset.errors import BadHeader, TruncatedShard, UnsupportedMember, Where
from webdataset.redact import warn

from ._byte_window import FIRST_WINDOW, WINDOW, Blocks, Readable
from ._extended_headers import Extensions
from ._parse_header import BLOCK, CONTINUED, LINKS, REGULAR, SPARSE, WITHOUT_PAYLOAD, ZEROS, Header, parse_header
from ._pax_records import sparse
from ._scan_window import Table
from ._walk_window import NOTHING, Columns, walk
from ._window_memory import Windows

Rename = Callable[[str], str | None]
OnSkip = Callable[[Header, int], None]

# In a smaller window headers are parsed one by one: a call of NumPy takes as long as ten headers.
_WORTH_SCANNING = 16 * BLOCK

# From this mean payload on going from header to header, at 2 µs each, is faster than scanning the window in 80 µs.
_WORTH_WALKING = 1 << 15
_CHECK_ADDRESS = "check the address; a login or error page in place of a shard is a common cause"


class Run(NamedTuple):
    """Members that follow each other, as columns; the payload of member i is `data[starts[i]:stops[i]]`.

    `offsets` count from the archive's first byte (unpacked, if it is compressed) to a member's first header block, and
    `base` to the first byte of `data`. A later reading may start at an offset if the run is `restartable`. `data` is
    filled with other bytes when the next run is read: take slices, which are copies, before that. With `windows`
    it is a view, whose slices are views, and may be kept as long as they are. `largest` limits how many bytes of
    members may be put together: a compressed archive could fill the memory out of a few bytes.
    """

    base: int
    restartable: bool
    data: Any
    names: list[str]
    offsets: list[int]
    starts: list[int]
    stops: list[int]
    largest: float = math.inf


class Member(NamedTuple):
    """One file of an archive.

    >>> Member("a.txt", offset=0, data_offset=512, data=b"abc").size
    3
    """

    name: str
    offset: int
    data_offset: int
    data: bytes

    @property
    def size(self) -> int:
        """The payload's length in bytes."""
        return len(self.data)


def warn_about_link(header: Header, offset: int) -> None:
    """The default of `on_skip`: a warning.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_about_link(Header("b.txt", 0, b"2", "a.txt"), 512)
    >>> print(caught[0].message)
    member b.txt at byte 512 is a link to a.txt and is left out
    """
    what = f"is a link to {header.link}" if header.link else f"has the unknown type {header.kind!r}"
    warn(f"member {header.name} at byte {offset} {what} and is left out", stacklevel=2)


def read_members(stream: Readable | bytes, **options: Any) -> Iterator[Member]:
    """The files of an archive, one by one.

    >>> import tarfile
    >>> archive = io.BytesIO()
    >>> with tarfile.open(fileobj=archive, mode="w") as tar:
    ...     info = tarfile.TarInfo("a.txt")
    ...     info.size = 3
    ...     tar.addfile(info, io.BytesIO(b"abc"))
    >>> list(read_members(archive.getvalue()))
    [Member(name='a.txt', offset=0, data_offset=512, data=b'abc')]
    >>> list(read_members(archive.getvalue()[:700]))
    Traceback (most recent call last):
    webdataset.errors.TruncatedShard: the archive is truncated ...

    Args:
        stream: as for `read_runs`.
        options: those of `read_runs`.
    """
    for run in read_runs(stream, **options):
        data = run.data
        for name, offset, begin, end in zip(run.names, run.offsets, run.starts, run.stops, strict=True):
            yield Member(name, offset, run.base + begin, data[begin:end])


def read_runs(
    stream: Readable | bytes,
    *,
    start: int = 0,
    rename: Rename | None = None,
    strict: bool = True,
    concatenated: bool = True,
    on_skip: OnSkip = warn_about_link,
    window: int = WINDOW,
    windows: Windows | None = None,
    memory: mmap.mmap | None = None,
    limit: int = DECOMPRESS_LIMIT,
) -> Iterator[Run]:
    """The same as `read_members`, many members at a time, as columns.

    >>> import tarfile
    >>> archive = io.BytesIO()
    >>> with tarfile.open(fileobj=archive, mode="w") as tar:
    ...     for name in ("a.txt", "b.txt"):
    ...         tar.addfile(tarfile.TarInfo(name))
    >>> [run.names for run in read_runs(archive.getvalue())]
    [['a.txt', 'b.txt']]

    Args:
        stream: anything with `read(n)`, or the bytes themselves; gzip, bzip2, xz and zstd are recognised.
        start: the archive offset at which the stream begins: a member's `offset` from an earlier reading.
        rename: gets each name and returns the name to use, or None to leave the member out unread.
        strict: require the two blocks of zeros at the end, and nothing but zeros or archives after them.
        concatenated: go on with the archives after the end of the first; otherwise what follows is not read.
        on_skip: called with the header and offset of each link and each member of unknown type.
        window: how much to read at once, a multiple of 512.
        windows: where payloads are views of windows of that size: the memory for them. Otherwise they are copies.
        memory: what is read into, where they are copies: a `new_window` of that size, which no other reader uses before
            this one is closed. New memory for every archive would cost 0.2 ms in page faults.
        limit: how many bytes a member of a compressed archive may have.
    """
    if isinstance(stream, bytes | bytearray | memoryview):
        stream = io.BytesIO(stream)
    blocks = Blocks(stream, start=start, window=window, windows=windows, memory=memory)
    kind = find_compression(blocks.peek()) if start == 0 else None
    if kind is not None:
        blocks = Blocks(Unpacked(blocks, kind, limit=limit), window=window, windows=windows)
    # What is not compressed is no larger than what was read. What is could be large out of a few bytes.
    reader = _Reader(blocks, rename, on_skip, strict=strict, largest=math.inf if kind is None else limit)
    return reader.runs(concatenated=concatenated)


def plain_run(data: bytes) -> Run | None:
    """The members of a part of an archive that begins and ends between two members; None if not all of them are plain.

    >>> import tarfile
    >>> archive = b"".join(tarfile.TarInfo(name).tobuf() for name in ("a.txt", "b.txt"))
    >>> plain_run(archive).names, plain_run(archive[:700])
    (['a.txt', 'b.txt'], None)
    """
    names, offsets, starts, stops = Table(data).run_from(0)
    ended = bool(stops) and stops[-1] + -(stops[-1] - starts[-1]) % BLOCK == len(data)
    return Run(0, True, data, names, offsets, starts, stops) if ended else None


def read_headers(data: bytes, start: int = 0) -> Iterator[tuple[Header, int]]:
    """The headers of all members in a part of an archive, and where the payload of each begins.

    >>> import tarfile
    >>> list(read_headers(tarfile.TarInfo("a.txt").tobuf(), 1024))
    [(Header(name='a.txt', size=0, kind=b'0', link=''), 1536)]

    Args:
        data: the part; a payload may reach beyond its end.
        start: where in the archive it begins: at a header.
    """
    blocks = Blocks(io.BytesIO(data), start=start, window=FIRST_WINDOW)
    extensions, end = Extensions(blocks), start + len(data)
    while blocks.offset < end:
        if blocks.peek() == ZEROS:  # the end of an archive: another one may follow
            blocks.skip(BLOCK)
            extensions.forget()
            continue
        header = extensions.next_header()
        if header is None:
            continue
        at = blocks.offset
        yield header, at
        size = 0 if header.kind in WITHOUT_PAYLOAD else header.size
        blocks.discard(min(size + -size % BLOCK, end - at), "a payload")


class _Reader:
    """The state of reading one stream."""

    def __init__(self, blocks: Blocks, rename: Rename | None, on_skip: OnSkip, *, strict: bool, largest: float) -> None:
        self._blocks = blocks
        self._rename = rename
        self._on_skip = on_skip
        self._strict = strict
        self._restartable = largest == math.inf
        self._largest = largest
        self._extensions = Extensions(blocks)
        self._scanned = 0  # the state of the window that is in the table
        self._table: Table | None = None

    def runs(self, *, concatenated: bool) -> Iterator[Run]:
        blocks, zeros, start = self._blocks, 0, self._blocks.offset
        while True:
            block = self._peek()
            if block == ZEROS:
                zeros += 1
                blocks.skip(BLOCK)
                continue
            if len(block) < BLOCK:
                self._end(block, zeros, start)
                return
            if blocks.offset == 0:
                _expect_tar(block)
            elif zeros and not self._is_next_archive(block, zeros, concatenated=concatenated):
                return
            zeros = 0
            run = self._plain() or self._single()
            if run is not None:
                yield run
                del run  # else its payload would stay in memory while the next one is read

    def _peek(self) -> bytes:
        try:
            return self._blocks.peek()
        except TruncatedShard:
            if self._strict:
                raise
            return b""

    def _plain(self) -> Run | None:
        """The next plain members that are in the window; if the first is not, the window moves on to it."""
        if self._extensions.matter:
            return None
        blocks, columns = self._blocks, self._find_plain()
        if not columns[0] and blocks.extend():
            columns = self._find_plain()
        names, offsets, starts, stops = columns
        if not names:
            return None
        length = stops[-1] + -(stops[-1] - starts[-1]) % BLOCK - blocks.at
        blocks.skip(length)
        blocks.mean = length / len(names)
        run = Run(blocks.base, self._restartable, blocks.shown, names, offsets, starts, stops, self._largest)
        return run if self._rename is None else _renamed(run, self._rename)

    def _find_plain(self) -> Columns:
        """The plain members from here on that are in the window."""
        blocks = self._blocks
        if blocks.mean >= _WORTH_WALKING:
            return walk(blocks.data, blocks.at, blocks.end, blocks.base)
        if blocks.fills != self._scanned:
            worth = blocks.end - blocks.at >= _WORTH_SCANNING
            table = Table(blocks.data, blocks.at, blocks.base, blocks.end) if worth else None
            self._scanned, self._table = blocks.fills, table
        return NOTHING if self._table is None else self._table.run_from(blocks.offset)

    def _single(self) -> Run | None:
        """The next member of any kind; None if it is not a file or not selected."""
        blocks = self._blocks
        offset = blocks.offset
        header = self._extensions.next_header()
        if header is None or header.kind in WITHOUT_PAYLOAD:
            if header is not None and header.kind in LINKS:
                self._on_skip(header, offset)
            return None
        name = self._selected_name(header, offset)
        begin, size = blocks.offset, header.size
        what = f"the payload of {header.name}"
        if name is None:
            blocks.discard(size, what)
            blocks.skip(-size % BLOCK)
            return None
        if size > self._largest:
            raise too_large(
                f"a member of a compressed archive has {size:,} bytes", Where(member=header.name, offset=offset)
            )
        data = blocks.show(blocks.take(size, what))
        blocks.skip(-size % BLOCK)
        blocks.mean += (size - blocks.mean) / 4
        restartable = self._restartable and not self._extensions.matter
        return Run(begin, restartable, data, [name], [offset], [0], [size], self._largest)

    def _selected_name(self, header: Header, offset: int) -> str | None:
        if header.kind == SPARSE:
            raise sparse(header.name, offset)
        if header.kind == CONTINUED:
            raise UnsupportedMember(
                "this member is the rest of a file of another volume",
                Where(member=header.name, offset=offset),
                hint="write the archive again without `tar --multi-volume`",
            )
        if header.kind not in REGULAR:
            self._on_skip(header, offset)
            return None
        return header.name if self._rename is None else self._rename(header.name)

    def _is_next_archive(self, block: bytes, zeros: int, *, concatenated: bool) -> bool:
        """Whether something other than zeros, after zeros, is the next archive."""
        blocks = self._blocks
        where = Where(offset=blocks.offset)
        if zeros == 1 and self._strict:
            raise BadHeader(
                "found one zero block before this byte; expected none or two",
                where,
                hint="a header was overwritten; fetch or write the shard again",
            )
        if zeros > 1 and not concatenated:
            self._discard_rest()
            return False
        try:
            parse_header(block, blocks.offset)
        except BadHeader as error:
            if self._strict:
                raise BadHeader(
                    "the end of the archive is followed by something that is not tar",
                    where,
                    hint="fetch or write the shard again, or read it with strict=False",
                ) from error
            self._discard_rest()
            return False
        self._extensions.forget()
        return True

    def _end(self, block: bytes, zeros: int, start: int) -> None:
        """End where no full block is left: correct after the end of the archive, otherwise the archive is truncated."""
        self._discard_rest()
        if not self._strict or (zeros >= 2 and not block.strip(b"\0")):
            return
        hint = "fetch or write the shard again, or save what is left: wds check --fix"
        if self._blocks.offset == start:
            what = "the archive is empty: 0 bytes"
        elif block and self._blocks.offset == len(block):  # a message of a server or a pointer of Git LFS is that short
            what, hint = f"the archive is truncated in its first header: it starts with {block[:16]!r}", _CHECK_ADDRESS
        elif block:
            what = "the archive is truncated in a header"
        elif zeros:
            what = "the archive is truncated: one block of zeros at its end instead of two"
        else:
            what = "the archive is truncated: it has no end-of-archive mark"
        raise TruncatedShard(what, Where(offset=self._blocks.offset), hint=hint)

    def _discard_rest(self) -> None:
        """Read to the end, to notice a failure of the stream: an error even where truncation is not."""
        try:
            self._blocks.discard_rest()
        except TruncatedShard:
            if self._strict:
                raise


def _renamed(run: Run, rename: Rename) -> Run:
    names = [rename(name) for name in run.names]
    kept = [row for row, name in enumerate(names) if name is not None]
    offsets, starts, stops = ([column[row] for row in kept] for column in (run.offsets, run.starts, run.stops))
    wanted = [name for name in names if name is not None]
    return run._replace(names=wanted, offsets=offsets, starts=starts, stops=stops)


def _expect_tar(block: bytes) -> None:
    try:
        parse_header(block)
    except BadHeader as error:
        what = f"this is not a tar archive: it starts with {block[:16]!r}"
        raise BadHeader(what, Where(offset=0), hint=_CHECK_ADDRESS) from error
