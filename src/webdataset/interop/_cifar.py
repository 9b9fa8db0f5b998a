"""CIFAR-10 and CIFAR-100 as their authors publish them: pickled dicts of arrays.

The pickles go through the same allow-list as pickled fields: they can build arrays, lists and text, and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from webdataset import stores
from webdataset.codecs import unpickle_loads
from webdataset.errors import FormatError, UnsafeContent, Where, add_where

from ._field_mapping import KEY, key_text
from ._record_format import Format, IndexedFile, Part, Record, RecordFile, training_parts

_BATCH = re.compile(r"(data_batch_\d+|test_batch|train|test)$")
_SIDE = 32


@dataclass(frozen=True)
class Cifar(Format):
    """The files `data_batch_1` to `data_batch_5`, `test_batch`, `train` and `test`, or their directory.

    A record has the pixels as `image` and `label` (CIFAR-10), or `fine_label` and `coarse_label` (CIFAR-100).
    """

    name: ClassVar[str] = "cifar"

    def parts(self, source: Any) -> list[Part]:
        """The batches; of a directory those for training."""
        return training_parts(source, _BATCH.search, "test")

    def open(self, part: Part) -> RecordFile:
        """Read one batch."""
        return _Batch(part.url)


class _Batch(IndexedFile):
    def __init__(self, url: str) -> None:
        self._url = url
        data = stores.read_bytes(url)
        try:
            batch = unpickle_loads(data, encoding="latin-1")  # written by Python 2
        except UnsafeContent as error:
            add_where(error, shard=url)
            raise
        except Exception as error:
            raise FormatError(f"not a pickled batch: {error}", Where(shard=url), hint="copy it again") from error
        self._pixels = batch.get("data") if isinstance(batch, dict) else None
        pixels = self._pixels
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != 3 * _SIDE * _SIDE:
            raise FormatError("the batch has no array 'data' with rows of 3,072 bytes", Where(shard=url))
        labels = {"label": "labels", "fine_label": "fine_labels", "coarse_label": "coarse_labels"}
        self._labels = {name: batch[key] for name, key in labels.items() if key in batch}
        self._names = batch.get("filenames")
        for name, values in self._labels.items():
            if len(values) != len(pixels):
                raise FormatError(f"expected {len(pixels)} of {name}, got {len(values)}", Where(shard=url))

    def __len__(self) -> int:
        return len(self._pixels)  # type: ignore[arg-type]  # checked

    def record(self, number: int) -> Record:
        assert self._pixels is not None
        image = np.ascontiguousarray(self._pixels[number].reshape(3, _SIDE, _SIDE).transpose(1, 2, 0))
        record: Record = {"image": image, **{name: int(values[number]) for name, values in self._labels.items()}}
        if self._names is not None:
            record[KEY] = key_text(self._names[number])
        return record
