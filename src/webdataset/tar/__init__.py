"""Tar archives: bytes → members, and members → header bytes.

In: anything with `read(n)`. Out: members with names, offsets and payloads. This package opens no file and no
connection, and does not know fields or addresses. It reads every dialect (v7, ustar, GNU, PAX, base-256 sizes),
compressed or not. Checksums, sizes, the end of the archive and the trailer of the compression are always verified.

Files:
    _parse_header      one header block, step by step, every dialect
    _pax_records       PAX records and what they change
    _extended_headers  headers together with the extended headers before them
    _header_columns    header blocks as NumPy columns: found, summed, checked
    _scan_window       all plain headers of a window at once, with NumPy
    _walk_window       plain headers of a window one by one, where they are few
    _byte_window       bytes of a stream, and their offsets
    _window_memory     memory of windows that members are views of
    _read_members      the members of an archive, and the rules for its end
    _survey_archive    a damaged archive: what can still be read, and what is wrong
    _damage            what a survey finds
    _rewindable_bytes  bytes of a stream that may be looked at again
    _write_header      headers, from a cached template
"""

from ._byte_window import WINDOW, Readable
from ._damage import Damage, DamageKind, Surveyed
from ._parse_header import BLOCK, Header, parse_header
from ._pax_records import only_times
from ._read_members import Member, Rename, Run, plain_run, read_headers, read_members, read_runs
from ._survey_archive import is_header, survey
from ._window_memory import Windows, new_window
from ._write_header import END_OF_ARCHIVE, encode_header, encode_member, padding

__all__ = [
    "BLOCK",
    "END_OF_ARCHIVE",
    "WINDOW",
    "Damage",
    "DamageKind",
    "Header",
    "Member",
    "Readable",
    "Rename",
    "Run",
    "Surveyed",
    "Windows",
    "encode_header",
    "encode_member",
    "is_header",
    "new_window",
    "only_times",
    "padding",
    "parse_header",
    "plain_run",
    "read_headers",
    "read_members",
    "read_runs",
    "survey",
]
