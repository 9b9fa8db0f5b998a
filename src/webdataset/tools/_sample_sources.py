"""Samples to create: their keys, and the source of each field."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from webdataset import stores
from webdataset.errors import FormatError, ShardNotFound, Where, located

from ._read_inputs import Sample


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of this machine."""

    path: str

    def __call__(self) -> bytes:
        """The file's content."""
        with io.FileIO(self.path) as file:  # without a buffer: all of it is read at once
            return file.readall()

    def exists(self) -> bool:
        """Whether the file exists."""
        return os.path.isfile(self.path)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An object that a store can read."""

    url: str

    def __call__(self) -> bytes:
        """The object's content."""
        return stores.read_bytes(self.url)


# The source of a field: its bytes, or a function that reads them.
Source = bytes | LocalFile | StoredFile | Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Entry:
    """A sample to create.

    >>> Entry("a", {"txt": b"hello"}, "recipe.txt, line 3").sample()
    {'__key__': 'a', 'txt': b'hello'}

    Attributes:
        key: the sample's key.
        fields: the source of each field.
        place: where the sample is described, for messages.
    """

    key: str
    fields: dict[str, Source]
    place: str

    def sample(self) -> Sample:
        """The sample with its bytes."""
        found: Sample = {"__key__": self.key}
        for field, source in self.fields.items():
            try:
                with located(key=self.key, field=field, member=self.place):
                    found[field] = source if isinstance(source, bytes) else source()
            except FileNotFoundError as error:
                path = source.path if isinstance(source, LocalFile) else getattr(source, "url", "")
                raise ShardNotFound(
                    f"the source {path} of {self.key}.{field} was not found",
                    Where(shard=self.place),
                    hint="correct the name, or leave such samples out with --missing skip",
                ) from error
        return found

    def missing(self) -> str | None:
        """The path of the first local file that does not exist; None if all exist."""
        return next((s.path for s in self.fields.values() if isinstance(s, LocalFile) and not s.exists()), None)


def group_entries(members: Iterable[tuple[str, str, Source, str]]) -> Iterator[Entry]:
    """Consecutive (key, field, source, place) of one key as entries; a key that occurs again later is an error."""
    seen: dict[str, str] = {}
    entry: Entry | None = None
    for key, field, source, place in members:
        if entry is None or key != entry.key:
            if entry is not None:
                yield entry
            if key in seen:
                raise FormatError(
                    f"the files of the sample {key!r} are not together: it begins at {seen[key]}",
                    Where(shard=place),
                    hint="sort by name first",
                )
            seen[key] = place
            entry = Entry(key, {}, place)
        name = field.lower()
        if name in entry.fields:
            raise FormatError(f"the file {key}.{name} is given twice", Where(shard=place), hint="remove one of them")
        entry.fields[name] = source
    if entry is not None:
        yield entry


def as_bytes(value: Any) -> bytes | None:
    """A value of a manifest as bytes: text unchanged, dates and decimals as text, the rest as JSON; None stays None.

    >>> from datetime import date
    >>> as_bytes("3"), as_bytes({"a": 1}), as_bytes(date(2026, 1, 2)), as_bytes(None)
    (b'3', b'{"a": 1}', b'2026-01-02', None)
    """
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    is_json = isinstance(value, dict | list | tuple | int | float)
    return (json.dumps(value, default=_inner_text) if is_json else str(value)).encode()


def _inner_text(value: Any) -> str:
    if isinstance(value, bytes):
        raise FormatError("a list or struct has bytes in it", hint="put the bytes into a column of their own")
    return str(value)
