"""Samples → MDS datasets."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import numpy as np

from webdataset import stores
from webdataset.errors import EncodingError, SpecError, Where, located

from ._mds_values import check_encodings, column_size, encode_value, encoding_for
from ._record_format import Record, RecordSink
from ._staged_directory import StagedDirectory

_OURS = re.compile(r"index\.json|shard\.\d+\.mds")  # a directory with other files is not replaced


class MDSSink(RecordSink):
    """One dataset: shards, and at the end their index. Without its index a directory is no dataset.

    Every sample must have the columns of the first one; MDS has no missing values.
    """

    def __init__(self, root: str, columns: dict[str, str], hashes: tuple[str, ...], size_limit: int) -> None:
        check_encodings(columns)
        for algorithm in hashes:
            if algorithm not in hashlib.algorithms_available:
                raise SpecError(f"the checksum {algorithm!r} is not known", hint="for example sha1")
        self._url, self._hashes, self._limit = root.rstrip("/"), hashes, size_limit
        self._given = columns
        self._columns: dict[str, str] = {}
        self._samples: list[bytes] = []
        self._size = 0
        self._shards: list[dict[str, Any]] = []
        path = stores.is_local(self._url)
        self._staged = None if path is None else StagedDirectory(path, lambda names: all(map(_OURS.fullmatch, names)))
        self._root = self._url if self._staged is None else str(self._staged.work)

    def write(self, sample: Record) -> int:
        """Write one sample."""
        with located(key=sample.get("__key__"), shard=self._url):
            data = self._encode(sample)
        if self._samples and self._size + len(data) + 4 > self._limit:
            self._publish_shard()
        if not self._samples:
            self._size = 8 + len(self._header())
        self._samples.append(data)
        self._size += len(data) + 4
        return len(data)

    def close(self) -> None:
        """Publish the last shard, then the index."""
        if self._samples:
            self._publish_shard()
        index = json.dumps({"shards": self._shards, "version": 2}, sort_keys=True)
        stores.write_bytes(f"{self._root}/index.json", index.encode())
        if self._staged is not None:
            self._staged.publish()

    def abort(self) -> None:
        """Discard everything; in a remote store, where nothing can be renamed, shards without an index stay."""
        if self._staged is not None:
            self._staged.discard()

    def _encode(self, sample: Record) -> bytes:
        if not self._columns:
            names = sorted(sample)
            self._columns = {name: self._given.get(name) or _encoding(name, sample[name]) for name in names}
        if sample.keys() != self._columns.keys():
            name = min(sample.keys() ^ self._columns.keys())
            raise EncodingError(
                f"the field is {'missing' if name in self._columns else 'not in the first sample'}, and MDS has no "
                "missing values",
                Where(field=name),
                hint="name the fields that all samples have in the mapping",
            )
        sizes, values = [], []
        for name, encoding in self._columns.items():
            with located(field=name):
                value = sample[name]
                if name not in self._given and _encoding(name, value) != encoding:
                    raise EncodingError(f"expected {encoding} as in the first sample, got {_encoding(name, value)}")
                values.append(encode_value(encoding, value))
            if column_size(encoding) is None:
                sizes.append(len(values[-1]))
        return np.array(sizes, "<u4").tobytes() + b"".join(values)

    def _header(self) -> bytes:
        return json.dumps(self._config(), sort_keys=True).encode()

    def _config(self) -> dict[str, Any]:
        return {
            "column_encodings": list(self._columns.values()),
            "column_names": list(self._columns),
            "column_sizes": [column_size(encoding) for encoding in self._columns.values()],
            "compression": None,
            "format": "mds",
            "hashes": list(self._hashes),
            "size_limit": self._limit,
            "version": 2,
        }

    def _publish_shard(self) -> None:
        samples, self._samples = self._samples, []
        header = self._header()
        first = 4 * (len(samples) + 2) + len(header)
        offsets = np.cumsum([first, *map(len, samples)])
        if offsets[-1] >= 1 << 32:
            raise EncodingError("a shard of MDS has at most 4 GiB", Where(shard=self._url))
        blocks = [np.array([len(samples), *offsets], "<u4").tobytes(), header, *samples]
        name = f"shard.{len(self._shards):05d}.mds"
        digests = {algorithm: hashlib.new(algorithm, usedforsecurity=False) for algorithm in self._hashes}
        with stores.open_write(f"{self._root}/{name}") as stream:
            for block in blocks:
                stream.write(block)
                for digest in digests.values():
                    digest.update(block)
        hashes = {algorithm: digest.hexdigest() for algorithm, digest in digests.items()}
        raw = {"basename": name, "bytes": int(offsets[-1]), "hashes": hashes}
        self._shards.append({**self._config(), "raw_data": raw, "samples": len(samples), "zip_data": None})


def _encoding(name: str, value: Any) -> str:
    with located(field=name):
        return encoding_for(value)
