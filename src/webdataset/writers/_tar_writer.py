"""Samples in, one archive out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

from webdataset.arguments import is_number
from webdataset.errors import EncodingError, SpecError, WebDatasetError, Where, add_where
from webdataset.index import index_url, save_index
from webdataset.redact import redacted
from webdataset.stores import close_or_abort
from webdataset.tar import END_OF_ARCHIVE, encode_header, padding

from ._check_names import check_field, check_key, require_key
from ._compress_archive import find_compression
from ._encode_sample import make_encoder
from ._shard_record import Record, index_location
from ._sink import Sink


class Placed(NamedTuple):
    """Where a field of a written sample is in the archive, before compression.

    >>> Placed("txt", 512, 5, "0001.txt")
    Placed(field='txt', offset=512, size=5, name='0001.txt')
    """

    field: str
    offset: int
    size: int
    name: str


class TarWriter:
    """Write samples into one tar archive.

    >>> import io, tarfile
    >>> stream = io.BytesIO()
    >>> with TarWriter(stream) as sink:
    ...     sink.write({"__key__": "0001", "txt": "hello", "json": {"label": 3}})
    17
    >>> tarfile.open(fileobj=io.BytesIO(stream.getvalue())).getnames()
    ['0001.json', '0001.txt']

    A path or URL is published when the writer is closed and the archive is complete; when the `with` block raises,
    nothing appears. A stream is written to and left open, its owner closes it. The same samples give the same bytes.

    Args:
        fileobj: a path, a URL of any scheme that can be written, or a writable binary stream.
        user: the owner's name in the archive.
        group: the group's name in the archive.
        mode: permissions of the members.
        compress: "gz", "bz2", "xz", "zst", True for "gz", False for none; None decides by the target's name.
        encoder: True encodes by extension; False or None takes bytes; a dict maps field names (`imu.z`) or extensions
            (`z`) to functions, and only these; a callable gets the sample and returns one of bytes.
        keep_meta: also write the fields that start with an underscore, except `__key__`.
        mtime: time stamp of the members in whole seconds; None is 0, so that archives can be compared byte for byte.
        format: "ustar", "gnu", "pax" or tarfile's number for it; None takes the plainest that fits each member.
        encoder_options: arguments for the encoders by field or extension, `{"jpg": {"quality": 85}}`.
        strict: refuse what a reader would change: names that it would split differently, keys that are in the archive
            already, samples without fields.
        on_sample: called with the key and a list of `Placed` after each sample.
        index: True stores the archive's index beside it once it is published, a directory or URL stores it there.
    """

    def __init__(
        self,
        fileobj: Any,
        user: str = "bigdata",
        group: str = "bigdata",
        mode: int = 0o444,
        compress: bool | str | None = None,
        encoder: Any = True,
        keep_meta: bool = False,
        mtime: float | None = None,
        format: str | int | None = None,  # noqa: A002 - the public name
        *,
        encoder_options: dict[str, dict[str, Any]] | None = None,
        strict: bool = True,
        on_sample: Callable[[str, Sequence[Placed]], None] | None = None,
        index: bool | str | os.PathLike[str] | None = None,
    ) -> None:
        self.user, self.group, self.mode, self.mtime = user, group, mode, _whole_seconds(mtime)
        self.compress, self.keep_meta, self.strict, self.on_sample = compress, keep_meta, strict, on_sample
        self.encoder = make_encoder(encoder, encoder_options)
        self._header = partial(encode_header, mode=mode, mtime=self.mtime, uname=user, gname=group, format=format)
        self._header("probe", 0)  # wrong arguments fail here, not at the first sample
        self.count = 0
        self._position = 0
        self._keys: set[str] = set()
        self._known_fields: set[str] = set()
        self._record: Record | None = None
        self._location, self._indexed = index_location(index)
        self._sink = Sink(fileobj, compress)
        if self._indexed:
            self._begin_index()

    def __repr__(self) -> str:
        return redacted(f"<TarWriter {self._sink.name or self.stream!r}: {self._sink.state}, {self.count} samples>")

    @property
    def stream(self) -> Any:
        """The binary stream that the archive goes to."""
        return self._sink.stream

    @staticmethod
    def tarmode(fileobj: Any, compress: bool | str | None = None) -> str:
        """The mode in which `tarfile` would write this target.

        >>> TarWriter.tarmode("a.tar.gz"), TarWriter.tarmode("a.tar", compress="xz")
        ('w|gz', 'w|xz')
        """
        return f"w|{find_compression(fileobj, compress) or ''}"

    def write(self, sample: dict[str, Any]) -> int:
        """Write one sample, its fields in sorted order, and return the number of its payload bytes.

        >>> import io
        >>> with TarWriter(io.BytesIO(), encoder_options={"json": {"indent": 1}}) as sink:
        ...     sink.write({"__key__": "0001", "cls": 7}), sink.write({"__key__": "0001.left", "cls": 7})
        Traceback (most recent call last):
        webdataset.errors.EncodingError: the key '0001.left' has a dot in its last part, ...

        A sample that cannot be written leaves the archive as it was.
        """
        self._sink.require_open()
        key = require_key(sample)
        try:
            fields = self._encode(key, sample)
            blocks, placed, end = self._lay_out(key, fields)
        except WebDatasetError as error:
            add_where(error, key=key, shard=self._sink.name)
            raise
        self._sink.write(blocks, end - self._position)
        self._position = end
        self._keys.add(key)
        self.count += 1
        if self._record is not None:
            self._record.add(key, placed)
        if self.on_sample is not None:
            self.on_sample(key, [Placed(*where) for where in placed])
        return sum([len(data) for _, data in fields])

    def close(self) -> None:
        """Complete the archive and publish it; more calls do nothing."""
        fresh = self._sink.state == "open"
        if fresh:
            self._sink.write([END_OF_ARCHIVE], len(END_OF_ARCHIVE))
        self._sink.close()
        if fresh and self._indexed and self._record is not None:
            save_index(self._record.index, str(self._sink.name), self._location)

    def take_notes(self, record: Record) -> None:
        """Pass every sample and every byte to `record`."""
        self._record = record
        if record.described:
            self._sink.watch = record.see

    def abort(self) -> None:
        """Throw the archive away: nothing is published, and a stream that was given gets no end-of-archive mark."""
        self._sink.abort()

    def __enter__(self) -> Self:
        return self

    __exit__ = close_or_abort

    def _begin_index(self) -> None:
        try:
            if not self._sink.owned:
                raise SpecError("a stream has no name for an index", hint="give a path or URL instead of the stream")
            index_url(str(self._sink.name), self._location)
        except SpecError:
            self._sink.abort()
            raise
        self._record = Record(described=False)

    def _encode(self, key: str, sample: dict[str, Any]) -> list[tuple[str, bytes]]:
        """The fields to be written, as (name, bytes), checked and sorted."""
        self._check_fields(sample)
        encoded = self.encoder(sample)
        if not isinstance(encoded, dict):
            raise EncodingError(
                f"the encoder returned a {type(encoded).__name__}", hint="it must return a dict of bytes"
            )
        self._check_fields(encoded)
        fields = [
            (field, value if type(value) is bytes else _as_bytes(field, value))
            for field, value in encoded.items()
            if not field.startswith("_") or (self.keep_meta and field != "__key__")
        ]
        if self.strict:
            self._check_sample(key, fields)
        fields.sort()
        return fields

    def _check_fields(self, sample: dict[str, Any]) -> None:
        if self._known_fields.issuperset(sample):
            return
        for field in sample:
            check_field(field, strict=self.strict and (self.keep_meta or str(field)[:1] != "_"))
            self._known_fields.add(field)

    def _check_sample(self, key: str, fields: list[tuple[str, bytes]]) -> None:
        check_key(key, [field for field, _ in fields])
        if key in self._keys:
            raise EncodingError(
                "the archive already has a sample with this key; readers would mix them or refuse them",
                hint="give every sample a key of its own, or use strict=False",
            )
        if not fields:
            raise EncodingError(
                "the sample has no fields, so nothing of it would be written", hint="give it at least one field"
            )

    def _lay_out(
        self, key: str, fields: list[tuple[str, bytes]]
    ) -> tuple[list[bytes], list[tuple[str, int, int, str]], int]:
        """The blocks of a sample, the positions of its payloads, and where the next header starts."""
        blocks: list[bytes] = []
        placed: list[tuple[str, int, int, str]] = []
        position = self._position
        for field, data in fields:
            name, size = f"{key}.{field}", len(data)
            header, tail = self._header(name, size), padding(size)
            blocks += (header, data, tail)
            position += len(header)
            placed.append((field, position, size, name))
            position += size + len(tail)
        return blocks, placed, position


def _as_bytes(field: str, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if field.startswith("_") and isinstance(value, str):
        return (redacted(value) if field == "__url__" else value).encode()  # shards are given to others
    what = "a str" if field.startswith("_") else "bytes"
    raise EncodingError(
        f"expected {what}, got {type(value).__name__}",
        Where(field=field),
        hint="encode it before writing, or let encoder=True do it" if what == "bytes" else "write it as text",
    )


def _whole_seconds(mtime: Any) -> int:
    if mtime is not None and not is_number(mtime):
        raise SpecError(f"mtime={mtime!r} is not a time", hint="give seconds since 1970, such as time.time()")
    return int(mtime or 0)
