"""Zip archives of samples: as in a tar shard, the members with the same basename are one sample."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import ClassVar

from webdataset.codecs import read_member
from webdataset.errors import DuplicateField, SplitSample, WebDatasetError, Where, located
from webdataset.names import is_meta, split_name

from ._byte_ranges import ByteRanges
from ._field_mapping import KEY
from ._record_format import Format, IndexedFile, Part, Record, RecordFile, bad_record, recognized


@dataclass(frozen=True)
class ZipSamples(Format):
    """Zip archives whose members are named like those of a tar shard: `0001.jpg`, `0001.cls`."""

    name: ClassVar[str] = "zip"
    suffixes: ClassVar[tuple[str, ...]] = (".zip",)
    by_extension: ClassVar[bool] = True

    def open(self, part: Part) -> RecordFile:
        """Open one archive."""
        return _ZipFile(part.url)


class _ZipFile(IndexedFile):
    def __init__(self, url: str) -> None:
        self._url = url
        self._stream = ByteRanges(url).stream()
        with recognized(self._stream, url, "a zip archive"):
            self._zip = zipfile.ZipFile(self._stream)
            self._samples = self._grouped()

    def _grouped(self) -> list[tuple[str, dict[str, zipfile.ZipInfo]]]:
        samples: list[tuple[str, dict[str, zipfile.ZipInfo]]] = []
        seen: set[str] = set()
        for info in self._zip.infolist():
            key, field = split_name(info.filename)
            if info.is_dir() or key is None or field is None or is_meta(info.filename):
                continue
            if not samples or samples[-1][0] != key:
                if key in seen:
                    raise SplitSample(
                        "the members of this key are not adjacent",
                        Where(key=key, member=info.filename, shard=self._url, offset=info.header_offset),
                        hint="write the archive again, sorted by name",
                    )
                seen.add(key)
                samples.append((key, {}))
            if field.lower() in samples[-1][1]:
                where = Where(field=field, key=key, member=info.filename, shard=self._url)
                raise DuplicateField("the sample has this field twice", where)
            samples[-1][1][field.lower()] = info
        return samples

    def __len__(self) -> int:
        return len(self._samples)

    def record(self, number: int) -> Record:
        key, fields = self._samples[number]
        record: Record = {KEY: key}
        for field, info in fields.items():
            try:
                with located(shard=self._url, member=info.filename):
                    record[field] = read_member(self._zip, info)
            except WebDatasetError:
                raise
            except Exception as error:  # zipfile's own classes, those of zlib, bz2 and lzma, and Python's
                raise bad_record(
                    f"the member {info.filename} cannot be read: {error}", self._url, number, info.header_offset
                ) from error
        return record

    def close(self) -> None:
        self._zip.close()
        self._stream.close()
