"""The names of one shard: faults in each, and names that cannot be extracted side by side."""

from __future__ import annotations

from webdataset import tar
from webdataset.names import split_name

from ._findings import Findings, Kind
from ._portable_names import name_faults


class ShardNames:
    """Looks at the name of every file of a shard and notes down what is wrong."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._folded: dict[str, str] = {}
        self._folders: set[str] = set()

    def look(self, member: tar.Surveyed) -> None:
        """One more file."""
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
        self._look_at_folders(name, member.offset)

    def _look_at_folders(self, name: str, offset: int) -> None:
        folder = name.rpartition("/")[0]
        while folder and folder not in self._folders:
            self._folders.add(folder)
            if self._folded.get(folder.lower()) == folder:
                self._findings.add(Kind.FILE_AND_FOLDER, f"{folder!r} is a file too", member=name, offset=offset)
            folder = folder.rpartition("/")[0]
        if name in self._folders:
            self._findings.add(Kind.FILE_AND_FOLDER, f"{name!r} is a folder too", member=name, offset=offset)
