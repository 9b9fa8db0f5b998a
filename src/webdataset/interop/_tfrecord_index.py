r"""Indexes of TFRecord files: a line `OFFSET LENGTH` per record, as `tfrecord2idx` writes and DALI reads it.

The length counts the 16 bytes around the payload.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from webdataset import stores
from webdataset.address import like
from webdataset.errors import FormatError, ShardNotFound, StaleIndex, Where

from ._tfrecord_frames import scan_tfrecord

_SUFFIXES = (".tfindex", ".idx")


def write_tfrecord_index(url: str, index: str | None = None) -> str:
    r"""Store the index of a TFRecord file and return its address: `.tfindex` beside the file if none is given.

    >>> from webdataset.interop import write
    >>> write([{"a": 1}, {"a": 2}], "memory://docs/b.tfrecord")
    2
    >>> stores.read_range(write_tfrecord_index("memory://docs/b.tfrecord"), 0, 11)
    b'0 30\n30 30\n'
    """
    target = index if index is not None else like(url, _stem(url) + _SUFFIXES[0])
    stores.write_bytes(target, index_text(scan_tfrecord(url)))
    return target


def index_text(extents: np.ndarray[Any, Any]) -> bytes:
    r"""The text of an index.

    >>> index_text(np.array([[0, 34], [34, 52]]))
    b'0 34\n34 52\n'
    """
    return b"".join(b"%d %d\n" % (offset, length) for offset, length in extents.tolist())


def load_tfrecord_index(url: str, index: str | None) -> np.ndarray[Any, Any] | None:
    """The index of a file, checked against its size; None if there is none and `index` does not name one."""
    if index is not None:
        name = index.replace("*", _stem(url).rpartition("/")[2])
        return _checked(name, url)
    if stores.is_local(url) is None:  # requests for files that rarely exist would cost two round trips
        return None
    for name in (*(_stem(url) + suffix for suffix in _SUFFIXES), *(url + suffix for suffix in _SUFFIXES)):
        try:
            return _checked(name, url)
        except ShardNotFound:
            continue
    return None


def _stem(url: str) -> str:
    folder, slash, base = url.rpartition("/")
    return folder + slash + (base.rpartition(".")[0] or base)


def _checked(name: str, url: str) -> np.ndarray[Any, Any]:
    """The index that is stored under a name, if it is one of the file at `url`."""
    text = stores.read_bytes(name)
    try:
        extents = np.array([[int(word) for word in line.split()] for line in text.splitlines()], np.int64)
        extents = extents.reshape(-1, 2)
    except (ValueError, OverflowError) as error:
        raise FormatError("not the index of a TFRecord file", Where(shard=name), hint="delete it") from error
    ends = extents.sum(axis=1)
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    size = stores.size_of(url)
    if (extents[:, 0] != starts).any() or (size is not None and (ends[-1] if len(ends) else 0) != size):
        raise StaleIndex(
            f"the index describes another file: it ends at byte {ends[-1] if len(ends) else 0}, the file at {size}",
            Where(shard=name),
            hint="delete it, or build it again with wds.interop.write_tfrecord_index",
        )
    return extents
