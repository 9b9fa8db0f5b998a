"""The tar room: bytes → members, and members → bytes.

In comes anything with `read(n)` (reading); out come members: names, offsets, payloads. This room opens nothing, and it
does not know what a field or an address is. It reads every dialect (v7, ustar, GNU, PAX, base-256 sizes), packed or
not, and believes nothing: checksums, sizes, the end of the archive and the packer's trailer are all verified.

Files:
    _parse_header      one header block, step by step, every dialect
    _pax         PAX records and what they change
    _extended    headers together with the extensions before them
    _columns     header blocks as columns, with NumPy: found, summed, checked
    _scan_window        all plain headers of a window at once, with NumPy
    _walk_window        … one after the other, where they are few
    _blocks      bytes pulled from a stream, and where they stand
    _zstd        the module for zstd
    _decompress  gzip, bzip2, xz and zstd around an archive
    _read_members        the archive: runs of members, one member at a time, and the rules of its end
    _write_header       headers, from a cached template
"""

from ._blocks import WINDOW, Readable
from ._decompress import COMPRESSIONS, DECOMPRESS_LIMIT, Unpacked, find_compression, too_large
from ._parse_header import BLOCK, Header, parse_header
from ._pax import only_times
from ._read_members import Member, OnSkip, Rename, Run, read_headers, read_members, read_runs
from ._write_header import END_OF_ARCHIVE, encode_header, padding
from ._zstd import load_zstd

__all__ = [
    "BLOCK",
    "COMPRESSIONS",
    "DECOMPRESS_LIMIT",
    "END_OF_ARCHIVE",
    "WINDOW",
    "Header",
    "Member",
    "OnSkip",
    "Readable",
    "Rename",
    "Run",
    "Unpacked",
    "encode_header",
    "find_compression",
    "load_zstd",
    "only_times",
    "padding",
    "parse_header",
    "read_headers",
    "read_members",
    "read_runs",
    "too_large",
]
