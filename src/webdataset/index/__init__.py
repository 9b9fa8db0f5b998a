"""Index: where every sample of a shard lies, and how to read one from there.

Comes in: the members of a shard (from a stream, or while one goes by), index files, dataset descriptions, sample
numbers and keys. Goes out: offsets, counts, and single samples as plain dicts of bytes. This room does not know how a
field is decoded, in which order samples are wanted, or what a rank is.

* `_names`       which member belongs to which sample
* `_shard_index` what an index of one shard holds, and what is impossible
* `_build`       members → index: at once, while streaming, many shards side by side
* `_learn`       the same while somebody reads a shard for its samples
* `_walk`        the headers of a plain local archive, from one to the next or swept up with everything
* `_plain`       many header blocks at once: checked, and what they say
* `_cut`         many names at once: keys and fields
* `_digits`      many numbers at once: from and to decimal digits
* `_dali`        the text format of NVIDIA's `wds2idx`
* `_wids`        the JSON description of a whole dataset
* `_place`       where index files lie; storing and loading them
* `_describe`    index a whole dataset and describe it
* `_fresh`       does this index describe this shard?
* `_fetch`       byte ranges of a shard, mapped or over the network
* `_lookup`      one sample out of the middle of a shard
* `_recent`      the indexes that were used last
* `_dataset`     a map-style dataset over indexed shards
"""

from __future__ import annotations

from ._build import IndexBuilder, build, build_index, build_indexes
from ._dali import count_dali, read_dali, write_dali
from ._dataset import IndexedDataset, LazySample, Place
from ._describe import index_shards
from ._fetch import Range, coalesce, open_bytes
from ._fresh import check_end
from ._learn import LearnIndexes, Lesson
from ._lookup import ShardReader
from ._names import split_name
from ._place import dali_name, has_index, index_url, load_count, load_index, save_index
from ._recent import RecentIndexes
from ._shard_index import Extent, Keys, ShardIndex
from ._wids import Description, ShardEntry, read_description, seen_from, write_description

__all__ = [
    "Description",
    "Extent",
    "IndexBuilder",
    "IndexedDataset",
    "Keys",
    "LazySample",
    "LearnIndexes",
    "Lesson",
    "Place",
    "Range",
    "RecentIndexes",
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
    "save_index",
    "seen_from",
    "split_name",
    "write_dali",
    "write_description",
]
