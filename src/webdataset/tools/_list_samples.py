"""`wds ls`: the samples of shards: keys, fields, sizes, offsets. Payloads are read only where there is no other way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from webdataset import stores
from webdataset.index import ShardIndex, build_index, load_index
from webdataset.redact import hides_secrets
from webdataset.samples import OWN_FIELDS, read_shard

from ._read_inputs import Inputs, expand_inputs


@hides_secrets
@dataclass(frozen=True, slots=True)
class Listed:
    """One sample.

    Attributes:
        shard: the shard's address.
        number: the sample's number in the shard.
        key: the sample's key.
        fields: the fields, each with its size in bytes.
        offset: the byte where the payload of the first field begins; None in shards that had to be streamed.
    """

    shard: str
    number: int
    key: str
    fields: dict[str, int]
    offset: int | None = None

    @property
    def size(self) -> int:
        """The bytes of all fields."""
        return sum(self.fields.values())


def list_samples(inputs: Inputs, *, index: str | None = None) -> Iterator[Listed]:
    """The samples of shards, in order.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-ls/a.tar", [{"__key__": "0", "txt": "hello", "cls": 1}])
    >>> [(listed.key, listed.fields) for listed in list_samples(shard)]
    [('0', {'cls': 1, 'txt': 5})]

    Of local shards the headers are read, of remote ones the stored index, if there is one.

    Args:
        inputs: shards, or a description.
        index: where indexes are kept; by default beside the shards.
    """
    for url in expand_inputs(inputs):
        found = shard_index(url, index)
        yield from _streamed(url) if found is None else list_indexed(url, found)


def shard_index(url: str, place: str | None) -> ShardIndex | None:
    """The index of a shard if it can be built or loaded without reading payloads, else None."""
    path = stores.is_local(url)
    if path is not None and os.path.isfile(path):
        return build_index(url)  # from the headers: as quick as an index that may be old
    return None if url == "-" or (place is None and url.startswith("pipe:")) else load_index(url, place)


def list_indexed(url: str, index: ShardIndex) -> Iterator[Listed]:
    """The samples of a shard, from its index."""
    for number, extents in enumerate(index.rows()):
        fields = {extent.field.lower(): extent.size for extent in extents if extent.field.lower() not in OWN_FIELDS}
        yield Listed(url, number, index.key(number) or str(number), fields, extents[0].offset)


def _streamed(url: str) -> Iterator[Listed]:
    for number, sample in enumerate(read_shard(url)):
        fields = {name: len(value) for name, value in sample.items() if name not in OWN_FIELDS}
        yield Listed(url, number, sample["__key__"], fields)
