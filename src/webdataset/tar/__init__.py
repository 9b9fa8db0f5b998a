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
    _decompress  gzip, bzip2, xz and zstd around an archive
    _read_members        the archive: runs of members, one member at a time, and the rules of its end
    _survey_archive  a damaged archive: what can still be read, and what is wrong
    _damage      what a survey finds
    _held_bytes  bytes of a stream that may be looked at again
    _write_header       headers, from a cached template
"""

from ._blocks import WINDOW, Readable
from ._columns import NAME, PREFIX, TYPE, block_sums, find_headers, plain_sizes
from ._damage import Damage, DamageKind, Surveyed
from ._decompress import find_compression
from ._parse_header import BLOCK, Header, parse_header
from ._read_members import Member, OnSkip, Rename, Run, read_members, read_runs
from ._survey_archive import survey
from ._write_header import END_OF_ARCHIVE, encode_header, padding

__all__ = [
    "BLOCK",
    "END_OF_ARCHIVE",
    "NAME",
    "PREFIX",
    "TYPE",
    "WINDOW",
    "Damage",
    "DamageKind",
    "Header",
    "Member",
    "OnSkip",
    "Readable",
    "Rename",
    "Run",
    "Surveyed",
    "block_sums",
    "encode_header",
    "find_compression",
    "find_headers",
    "padding",
    "parse_header",
    "plain_sizes",
    "read_members",
    "read_runs",
    "survey",
]
