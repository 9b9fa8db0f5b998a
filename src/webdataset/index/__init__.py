"""Index: the offset of every sample of a shard, and random access by it.

In: the members of a shard (from a stream, or while it is read), index files, dataset descriptions, sample numbers and
keys. Out: offsets, counts, and single samples as dicts of bytes. This package does not know how fields are decoded, in
which order samples are read, or ranks.

* `_split_names`          which member belongs to which sample
* `_shard_index`          the index of one shard, checked for what no archive can be
* `_build_index`          members → index: one shard, a shard while it is read
* `_index_while_reading`  the index of a shard, built while its samples are read
* `_walk_headers`         the headers of a local archive of large files, from one to the next
* `_dali_text`            the text format of NVIDIA's `wds2idx`
* `_description`          the JSON description of a whole dataset
* `_index_location`       where index files are stored; saving and loading them
* `_index_dataset`        index a whole dataset and describe it
* `_verify_shards`        the bytes of a whole shard, compared with its description while they are read
* `_check_index`          check that an index describes its shard
* `_fetch_ranges`         byte ranges of a shard, from a local file or over the network
* `_seekable_range`       byte ranges as a file
* `_shard_reader`         single samples of a shard
* `_recent_indexes`       the most recently used indexes
* `_indexed_shards`       a map-style dataset over indexed shards
"""

from __future__ import annotations

from ._build_index import IndexBuilder, build, build_index
from ._check_index import check_end
from ._dali_text import count_dali, read_dali, write_dali
from ._description import Description, ShardEntry, read_description, seen_from, write_description
from ._fetch_ranges import Range, coalesce, open_bytes
from ._index_dataset import index_shards
from ._index_location import dali_name, has_index, index_url, load_count, load_index, save_index
from ._index_while_reading import GrowingIndex, StoreIndexes
from ._indexed_shards import IndexedShards, SampleLocation
from ._recent_indexes import RecentIndexes
from ._seekable_range import ReadsRanges, SeekableRange
from ._shard_index import Extent, Keys, ShardIndex
from ._shard_reader import ShardReader, read_by_shard
from ._split_names import sample_and_field
from ._verify_shards import VerifyShards

__all__ = [
    "Description",
    "Extent",
    "GrowingIndex",
    "IndexBuilder",
    "IndexedShards",
    "Keys",
    "Range",
    "ReadsRanges",
    "RecentIndexes",
    "SampleLocation",
    "SeekableRange",
    "ShardEntry",
    "ShardIndex",
    "ShardReader",
    "StoreIndexes",
    "VerifyShards",
    "build",
    "build_index",
    "check_end",
    "coalesce",
    "count_dali",
    "dali_name",
    "has_index",
    "index_shards",
    "index_url",
    "load_count",
    "load_index",
    "open_bytes",
    "read_by_shard",
    "read_dali",
    "read_description",
    "sample_and_field",
    "save_index",
    "seen_from",
    "write_dali",
    "write_description",
]
