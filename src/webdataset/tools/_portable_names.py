"""Which programs cannot read a member's name, and names that all of them can read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from webdataset import tar
from webdataset.names import is_meta, split_name

from ._findings import Findings, Kind

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WINDOWS_SIGNS = re.compile(r'[<>:"\\|?*]')
_WINDOWS_NAMES = re.compile(r"(?i)(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?$")
_LONGEST_PART, _LONGEST_PATH = 255, 4095


def name_faults(name: str) -> Iterator[tuple[Kind, str]]:
    """The kinds of faults in a name, with their description.

    >>> [kind.value for kind, _ in name_faults("/data/a.JPG")]
    ['absolute-name', 'upper-case-field']
    """
    base = name.rpartition("/")[2]
    parts = name.split("/")
    if is_meta(name):
        yield Kind.RESERVED, "names of the form `__…__` are for data about the archive; readers skip them"
        return
    if any(part.startswith(".") and part not in {".", ".."} for part in parts):
        if base.startswith("."):
            mac = base.startswith("._")
            yield (
                Kind.HIDDEN,
                "hidden file" + (", left by macOS beside the real one" if mac else "") + ": readers skip it",
            )
            return
    elif base.startswith("__"):
        yield Kind.HF_HIDDEN, "Hugging Face skips files whose name begins with `__`"
    yield from _path_faults(name, parts)
    key, field = split_name(name)
    if key is None or field is None:
        yield Kind.NO_EXTENSION, "the name has no extension, so the file belongs to no sample"
    elif not field:
        yield Kind.EMPTY_EXTENSION, "the name ends with a dot, so its field has no name"
    elif field != field.lower():
        yield Kind.UPPER_CASE, f"the field {field!r} is read as {field.lower()!r} here, and as it is by others"


def _path_faults(name: str, parts: list[str]) -> Iterator[tuple[Kind, str]]:
    encoded = name.encode("utf-8", "surrogateescape")
    if name.startswith("/"):
        yield Kind.ABSOLUTE, "the name begins with '/': tar programs change it or write outside the folder"
    if ".." in parts:
        yield Kind.PARENT, "the name has a '..' in it: tar programs refuse it or write outside the folder"
    if any("\udc80" <= sign <= "\udcff" for sign in name):
        yield Kind.NOT_UTF8, "the name is not UTF-8"
    if _CONTROL.search(name):
        yield Kind.CONTROL, "the name has control characters"
    if len(encoded) > _LONGEST_PATH or any(
        len(part.encode("utf-8", "surrogateescape")) > _LONGEST_PART for part in parts
    ):
        yield Kind.TOO_LONG, f"no file system can store this name: {len(encoded)} bytes"
    if _WINDOWS_SIGNS.search(name) or any(_WINDOWS_NAMES.match(part) or _is_changed_by_windows(part) for part in parts):
        yield Kind.WINDOWS_NAME, "Windows cannot create a file of this name"
    if " " in name:
        yield Kind.NAME_WITH_SPACE, "DALI's index format cannot hold names with spaces"


def _is_changed_by_windows(part: str) -> bool:
    """Whether Windows would change a name: it drops blanks and dots at the end."""
    return part.endswith((" ", ".")) and part not in {".", ".."}


def portable_name(name: str) -> str:
    r"""The closest name that every program can read; the same name if it is one already.

    >>> portable_name("/data/../a\n1.JPG"), portable_name("a.jpg")
    ('data/a_1.jpg', 'a.jpg')
    """
    escaped = "".join(f"_{ord(sign) - 0xDC00:02x}" if "\udc80" <= sign <= "\udcff" else sign for sign in name)
    parts = [part for part in _CONTROL.sub("_", escaped).split("/") if part not in {"", ".."}]
    cleaned = "/".join(parts)
    key, field = split_name(cleaned)
    return cleaned if key is None or field is None else f"{key}.{field.lower()}"


class ShardNames:
    """Checks the names of the files of a shard."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._folded: dict[str, str] = {}
        self._folders: set[str] = set()

    def check(self, member: tar.Surveyed) -> None:
        """Check the name of one file."""
        name, add = member.name, self._findings.add
        key, field_name = split_name(name)
        for kind, what in name_faults(name):
            add(kind, what, member=name, key=key, field=field_name or None, offset=member.offset)
        if member.gnu_long:
            what = "wds2idx writes a wrong offset for names of more than 100 bytes in GNU format"
            add(Kind.LONG_GNU_NAME, what, member=name, key=key, offset=member.offset)
        other = self._folded.setdefault(name.lower(), name)
        if other != name:
            what = f"the name differs from {other!r} in case only"
            add(Kind.CASE_COLLISION, what, member=name, key=key, offset=member.offset)
        self._check_folders(name, member.offset)

    def _check_folders(self, name: str, offset: int) -> None:
        folder = name.rpartition("/")[0]
        while folder and folder not in self._folders:
            self._folders.add(folder)
            if self._folded.get(folder.lower()) == folder:
                self._findings.add(Kind.FILE_AND_FOLDER, f"{folder!r} is a file too", member=name, offset=offset)
            folder = folder.rpartition("/")[0]
        if name in self._folders:
            self._findings.add(Kind.FILE_AND_FOLDER, f"{name!r} is a folder too", member=name, offset=offset)
