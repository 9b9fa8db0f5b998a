"""MosaicML's MDS: a directory with `index.json` and shards.

A shard is the number of samples (4 bytes), their offsets and the end of the last (4 bytes each), the columns as JSON,
and the samples. A sample is the sizes of its columns of variable size (4 bytes each), then all columns.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from webdataset import stores
from webdataset.address import like
from webdataset.errors import FormatError, Where

from ._byte_ranges import ByteRanges, RangeFile, read_offsets
from ._mds_values import decode_value
from ._record_format import (
    Format,
    Part,
    Record,
    RecordFile,
    RecordSink,
    Schema,
    bad_record,
    damage_of,
    raise_undecodable,
)


@dataclass(frozen=True)
class MDS(Format):
    """MDS datasets. The source and the target are directories.

    Attributes:
        check: verify the checksums of the index, once for each shard that is opened.
        columns: name → encoding of what is written (`{"image": "jpeg"}`); by default what keeps the values.
        hashes: checksums that are written.
        size_limit: bytes of a shard that is written.
    """

    check: bool = True
    columns: dict[str, str] = field(default_factory=dict)
    hashes: tuple[str, ...] = ("sha1",)
    size_limit: int = 1 << 26

    name: ClassVar[str] = "mds"
    suffixes: ClassVar[tuple[str, ...]] = (".mds",)
    directory: ClassVar[bool] = True

    def parts(self, source: Any) -> list[Part]:
        """The shards that `index.json` lists."""
        root, index = read_index(source)
        version = index.get("version")
        if version != 2:
            raise FormatError(f"expected version 2 of the index, got {version}", Where(shard=f"{root}/index.json"))
        with damage_of("the index", f"{root}/index.json"):
            return [_part(root, shard) for shard in index["shards"]]

    def open(self, part: Part) -> RecordFile:
        """Open one shard."""
        return _MDSShard(part, check=self.check)

    def create(self, url: str) -> RecordSink:
        """Begin to write a dataset."""
        from ._mds_writer import MDSSink

        return MDSSink(url, self.columns, self.hashes, self.size_limit)


def read_index(source: Any) -> tuple[str, dict[str, Any]]:
    """(directory, content) of a dataset's `index.json`."""
    name = stores.as_address(source)
    root = like(name, name.removesuffix("index.json").rstrip("/"))
    url = like(root, f"{root}/index.json")
    text = stores.read_bytes(url)
    with damage_of("the index", url):
        return root, dict(json.loads(text))


def inner_url(root: str, name: str) -> str:
    """The address of a file that an index names; it must be in the directory of the index.

    >>> inner_url("s3://bucket/data", "0-0/shard.00000.mds")
    's3://bucket/data/0-0/shard.00000.mds'
    """
    if not name or name.startswith("/") or ":" in name or ".." in name.split("/"):
        raise FormatError(f"the index names {name!r}, which is not a file beside it", Where(shard=root))
    return like(root, f"{root}/{name}")


def _part(root: str, shard: dict[str, Any]) -> Part:
    stored = shard["zip_data"] or shard["raw_data"]
    for each in (stored, shard["raw_data"]):
        _ = each["bytes"] + 0, each["hashes"].items()
    return Part(inner_url(root, stored["basename"]), shard)


class _MDSShard(RangeFile):
    def __init__(self, part: Part, *, check: bool) -> None:
        details = part.details or {}
        packed = details.get("zip_data")
        if check and packed:
            with ByteRanges(part.url) as data:
                _compare(data, packed, part.url)
        self._expected = details["raw_data"] if check and details else None
        super().__init__(part.url, details["compression"] if packed else None)

    def _read_header(self) -> None:
        if self._expected is not None:
            _compare(self._data, self._expected, self._url)
        self._offsets = read_offsets(self._data)
        start = 4 * (len(self._offsets) + 1)
        with damage_of("the header", self._url):
            header = json.loads(self._data.read(start, self._offsets[0] - start))
            self._columns = list(
                zip(header["column_names"], header["column_encodings"], header["column_sizes"], strict=True)
            )

    @property
    def schema(self) -> Schema:
        return {name: encoding for name, encoding, _ in self._columns}

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def record(self, number: int) -> Record:
        begin, end = self._offsets[number : number + 2]
        data = self._data.read(begin, end - begin)
        offset = 4 * sum(size is None for _, _, size in self._columns)
        sizes = iter(np.frombuffer(data[:offset], "<u4").tolist())
        record: Record = {}
        for name, encoding, fixed in self._columns:
            size = next(sizes) if fixed is None else fixed
            if offset + size > len(data):
                raise bad_record(f"the column {name} ends after the sample", self._url, number, begin + offset)
            try:
                record[name] = decode_value(encoding, data[offset : offset + size])
            except Exception as error:  # any decoder, on any bytes
                raise_undecodable(error, f"column {name}", self._url, number, begin + offset)
            offset += size
        return record


def _compare(data: ByteRanges, stored: dict[str, Any], url: str) -> None:
    if data.size != stored["bytes"]:
        raise FormatError(
            f"expected {stored['bytes']} bytes as in the index, got {data.size}",
            Where(shard=url, offset=min(data.size, stored["bytes"])),
            hint="copy it again",
        )
    for algorithm, expected in stored["hashes"].items():
        found = data.checksum(algorithm)
        if found != expected:
            raise FormatError(
                f"expected {algorithm} {expected} as in the index, got {found}",
                Where(shard=url, offset=0),
                hint="the shard is damaged: copy it again",
            )
        return  # one checksum of all bytes is enough
