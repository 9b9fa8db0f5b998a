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

from typing import TYPE_CHECKING

from webdataset.lazy_names import lazy_names

if TYPE_CHECKING:
    from ._byte_window import WINDOW as WINDOW
    from ._byte_window import Readable as Readable
    from ._damage import Damage as Damage
    from ._damage import DamageKind as DamageKind
    from ._damage import Surveyed as Surveyed
    from ._parse_header import BLOCK as BLOCK
    from ._parse_header import Header as Header
    from ._parse_header import parse_header as parse_header
    from ._pax_records import only_times as only_times
    from ._read_members import Member as Member
    from ._read_members import Rename as Rename
    from ._read_members import Run as Run
    from ._read_members import plain_run as plain_run
    from ._read_members import read_headers as read_headers
    from ._read_members import read_members as read_members
    from ._read_members import read_runs as read_runs
    from ._survey_archive import is_header as is_header
    from ._survey_archive import survey as survey
    from ._window_memory import Windows as Windows
    from ._window_memory import new_window as new_window
    from ._write_header import END_OF_ARCHIVE as END_OF_ARCHIVE
    from ._write_header import encode_header as encode_header
    from ._write_header import encode_member as encode_member
    from ._write_header import padding as padding

# The file of each name.
_FILES = {
    "_byte_window": "WINDOW Readable",
    "_damage": "Damage DamageKind Surveyed",
    "_parse_header": "BLOCK Header parse_header",
    "_pax_records": "only_times",
    "_read_members": "Member Rename Run plain_run read_headers read_members read_runs",
    "_survey_archive": "is_header survey",
    "_window_memory": "Windows new_window",
    "_write_header": "END_OF_ARCHIVE encode_header encode_member padding",
}
_LAZY, _load = lazy_names(__name__, _FILES)

__all__ = sorted(_LAZY)  # noqa: PLE0605  # from the table

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = _load
