"""The files of a cache directory and the records beside them. Paths and records only: no rules.

    DIR/NAME                            a published shard
    DIR/.webdataset/NAME.entry          what it is: address, size, version, checksum; its mtime is the last use
    DIR/.webdataset/NAME.TOKEN.part     a shard that is being fetched, in order from byte 0
    DIR/.webdataset/NAME.TOKEN.claim    what it will be, and how many bytes are reserved for it
    DIR/.webdataset/….OWNER.new         a record that is being written, and by which process
    DIR/.webdataset/….lock              locks (see _locks)

(NAME is percent-quoted inside `.webdataset`.) The cache deletes only what has an entry, a claim or the ending `.part`.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from webdataset.stores import process_lives

from ._machine_id import machine, short_machine

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A published shard: what it is, and how to see that it is still intact."""

    url_hash: str
    url: str
    size: int
    version: str | None
    checksum: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A shard that is being fetched: its version, the process that fetches it (0: none now), the bytes reserved."""

    url_hash: str
    version: str | None
    size: int | None
    reserved: int
    machine: str
    process: int = 0

    @property
    def is_live(self) -> bool:
        """Whether a process is fetching it. Of another machine that is not known, and assumed."""
        return self.machine != machine() or process_lives(self.process)


class Records:
    """Reads and writes the records of one cache directory."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.notes = os.path.join(folder, ".webdataset")
        self.make_folder()

    def make_folder(self) -> None:
        """Make the directory, if it is not there or was removed."""
        if not os.path.isdir(self.notes):
            os.makedirs(self.notes, exist_ok=True)

    def data(self, name: str) -> str:
        """The path of a published shard."""
        return os.path.join(self.folder, name)

    def part(self, name: str, token: str) -> str:
        """The path of a shard that is being fetched."""
        return os.path.join(self.notes, f"{_quoted(name)}.{token}.part")

    def entry(self, name: str) -> Entry | None:
        """The entry, if there is one and its file exists."""
        found = _load(Entry, self._entry(name))
        return found if found is not None and os.path.exists(self.data(name)) else None

    def has_note(self, name: str) -> bool:
        """Whether there is an entry, with or without its file."""
        return os.path.exists(self._entry(name))

    def write_entry(self, name: str, entry: Entry) -> None:
        """Write an entry; whole or not at all."""
        self._write(self._entry(name), entry)

    def touch(self, name: str) -> None:
        """Record a use."""
        with suppress(OSError):
            os.utime(self._entry(name))

    def forget(self, name: str) -> None:
        """Remove a published shard: first the file, so that no file of ours is left without an entry."""
        for path in (self.data(name), self._entry(name)):
            Path(path).unlink(missing_ok=True)

    def claim(self, name: str, token: str) -> Claim | None:
        """The claim of a part."""
        return _load(Claim, self._claim(name, token))

    def write_claim(self, name: str, token: str, claim: Claim) -> None:
        """Write a claim; whole or not at all."""
        self._write(self._claim(name, token), claim)

    def remove_part(self, name: str, token: str) -> None:
        """Remove a part and its claim."""
        Path(self.part(name, token)).unlink(missing_ok=True)
        self.remove_claim(name, token)

    def remove_claim(self, name: str, token: str) -> None:
        """Remove the claim of a part that was published."""
        Path(self._claim(name, token)).unlink(missing_ok=True)

    def entries(self) -> Iterator[tuple[str, int, int]]:
        """(name, size, time of last use) of every published shard."""
        for note in self._ending(".entry"):
            name = unquote(note.removesuffix(".entry"))
            with suppress(FileNotFoundError):
                used = os.stat(os.path.join(self.notes, note)).st_mtime_ns
                yield name, file_size(self.data(name)), used

    def parts(self, name: str | None = None) -> Iterator[tuple[str, str]]:
        """(name, token) of every part or claim, or of those of one name."""
        seen = set()
        for ending in (".part", ".claim"):
            for note in self._ending(ending):
                quoted, _, token = note.removesuffix(ending).rpartition(".")
                found = (unquote(quoted), token)
                if found not in seen and (name is None or found[0] == name):
                    seen.add(found)
                    yield found

    def half_written(self) -> Iterator[tuple[str, bool]]:
        """(path, whether its writer is known to have ended) of every record that was not renamed yet."""
        for note in self._ending(".new"):
            _, where, process, _ = f"..{note.removesuffix('.new')}".rsplit(".", 3)
            dead = where == short_machine() and process.isdigit() and not process_lives(int(process))
            yield os.path.join(self.notes, note), dead

    def _ending(self, ending: str) -> list[str]:
        return sorted(note for note in os.listdir(self.notes) if note.endswith(ending))

    def _entry(self, name: str) -> str:
        return os.path.join(self.notes, f"{_quoted(name)}.entry")

    def _claim(self, name: str, token: str) -> str:
        return os.path.join(self.notes, f"{_quoted(name)}.{token}.claim")

    def _write(self, path: str, note: Any) -> None:
        temporary = f"{path}.{short_machine()}.{os.getpid()}.{secrets.token_hex(4)}.new"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(asdict(note), file)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def fill_lock(name: str) -> str:
    """The name of the lock that a process holds while it fetches a shard.

    >>> fill_lock("a.tar")
    'fill a.tar'
    """
    return f"fill {name}"


def _quoted(name: str) -> str:
    return quote(name, safe="")


def file_size(path: str) -> int:
    """The size of a file that may be gone by now: then 0.

    >>> file_size("/no/such/file")
    0
    """
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _load(kind: type[T], path: str) -> T | None:
    try:
        with open(path, encoding="utf-8") as file:
            return kind(**json.load(file))
    except (FileNotFoundError, ValueError, TypeError):
        return None
