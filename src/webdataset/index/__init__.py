"""Index: where every sample of a shard lies, and how to read one from there.

Comes in: the members of a shard (from a stream, or while one goes by), index files, dataset descriptions, sample
numbers and keys. Goes out: offsets, counts, and single samples as plain dicts of bytes. This room does not know how a
field is decoded, in which order samples are wanted, or what a rank is.

* `_member_names`       which member belongs to which sample
* `_shard_index` what an index of one shard holds, and what is impossible
* `_build_index`       members → index: at once, while streaming, many shards side by side
* `_learn_index`       the same while somebody reads a shard for its samples
* `_header_walk`        the headers of a local archive of large files, from one to the next
* `_split_columns`         many names of an index file at once: keys and fields
* `_dali`        the text format of NVIDIA's `wds2idx`
* `_description`        the JSON description of a whole dataset
* `_location`       where index files lie; storing and loading them
* `_describe_dataset`    index a whole dataset and describe it
* `_validate`       does this index describe this shard?
* `_fetch_ranges`       byte ranges of a shard, mapped or over the network
* `_lookup`      one sample out of the middle of a shard
* `_lru`      the indexes that were used last
* `_indexed_shards`     a map-style dataset over indexed shards
"""

from __future__ import annotations

from ._build_index import IndexBuilder, build, build_index, build_indexes
from ._dali import count_dali, read_dali, write_dali
from ._describe_dataset import index_shards
from ._description import Description, ShardEntry, read_description, seen_from, write_description
from ._fetch_ranges import Range, coalesce, open_bytes
from ._indexed_shards import IndexedShards, LazySample, SampleLocation
from ._learn_index import LearnIndexes, Lesson
from ._location import dali_name, has_index, index_url, load_count, load_index, save_index
from ._lookup import ShardReader
from ._lru import RecentIndexes
from ._member_names import sample_and_field
from ._shard_index import Extent, Keys, ShardIndex
from ._validate import check_end

__all__ = [
    "Description",
    "Extent",
    "IndexBuilder",
    "IndexedShards",
    "Keys",
    "LazySample",
    "LearnIndexes",
    "Lesson",
    "Range",
    "RecentIndexes",
    "SampleLocation",
    "ShardEntry",
    "ShardIndex",
    "ShardReader",
    "build",
    "build_index",
    "build_indexes",
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
    "read_dali",
    "read_description",
    "sample_and_field",
    "save_index",
    "seen_from",
    "write_dali",
    "write_description",
]
