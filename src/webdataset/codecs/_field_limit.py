"""How large a field may become when it is decompressed or decoded: one limit for every codec."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from typing import IO, Any

from webdataset import config
from webdataset.decompress import is_bomb, too_large
from webdataset.errors import FormatError

_READ_IN_PIECES = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


def field_limit(limit: int | None = None) -> int:
    """The limit in bytes: the one that is given, else the environment variable `WDS_DECOMPRESS_LIMIT`.

    >>> field_limit(100)
    100
    """
    return config.read("WDS_DECOMPRESS_LIMIT") if limit is None else limit


def check_size(size: int, limit: int | None = None) -> None:
    """Raise an error if a field would become larger than allowed.

    >>> check_size(2000, 1000)
    Traceback (most recent call last):
    webdataset.errors.FormatError: decodes to more than 1,000 bytes – raise WDS_DECOMPRESS_LIMIT if you trust the data
    """
    allowed = field_limit(limit)
    if size > allowed:
        raise too_large(f"decodes to more than {allowed:,} bytes")


def check_empty(shape: Sequence[int], itemsize: int) -> None:
    """Raise an error for an array without items whose other dimensions are too large: a loop over its rows never ends.

    >>> check_empty((3, 0), 8)
    >>> check_empty((10**18, 0), 8)
    Traceback (most recent call last):
    webdataset.errors.FormatError: decodes to more than 1,073,741,824 bytes – raise WDS_DECOMPRESS_LIMIT if you ...
    """
    if 0 in shape:
        check_size(math.prod(max(side, 1) for side in shape) * itemsize)


def check_zip(archive: zipfile.ZipFile) -> None:
    """Raise an error if the files of a zip archive are together larger than allowed.

    >>> import io
    >>> stream = io.BytesIO()
    >>> with zipfile.ZipFile(stream, "w") as archive:
    ...     archive.writestr("a", b"abc")
    ...     check_zip(archive)
    """
    check_size(sum(member.file_size for member in archive.infolist()))


def check_unpacked(packed: int, unpacked: int, what: str) -> None:
    """Raise an error if few bytes were decompressed to more than is allowed.

    >>> check_unpacked(100, 2**31, "a column")
    Traceback (most recent call last):
    webdataset.errors.FormatError: 100 bytes of a column decompress to 2,147,483,648 – raise WDS_DECOMPRESS_LIMIT ...
    """
    if is_bomb(packed, unpacked, field_limit()):
        raise too_large(f"{packed:,} bytes of {what} decompress to {unpacked:,}")


def check_row_group(group: Any) -> None:
    """Raise an error if a row group of a Parquet file has rows or compressed columns that are larger than allowed.

    Args:
        group: the metadata of the row group.
    """
    for column in map(group.column, range(group.num_columns)):
        what = f"the column {column.path_in_schema!r}"
        check_unpacked(column.total_compressed_size, column.total_uncompressed_size, what)
    check_size(group.total_byte_size // max(1, group.num_rows))


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Read one file of a zip archive, at most as much as is allowed and as it claims; `archive.read` has no limit.

    >>> import io
    >>> with zipfile.ZipFile(io.BytesIO(), "w") as archive:
    ...     archive.writestr("a", b"abc")
    ...     read_member(archive, archive.getinfo("a"))
    b'abc'
    """
    check_size(info.file_size)
    with open_member(archive, info) as stream:
        return stream.read(info.file_size)


def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    """The stream of one file of a zip archive, which decompresses no more than is read from it.

    Of bzip2, LZMA and Zstandard `zipfile` decompresses 4 kB at a time, whatever comes out: 4 GB of zeros.
    """
    if info.compress_type not in _READ_IN_PIECES:
        what = f"{info.filename!r:.80} in the zip archive has the compression method {info.compress_type}"
        raise FormatError(f"{what}, expected none or deflate", hint="write the archive again with ZIP_DEFLATED")
    return archive.open(info)
