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

from typing import TYPE_CHECKING

from webdataset.lazy_names import lazy_names

if TYPE_CHECKING:
    from ._build_index import IndexBuilder as IndexBuilder
    from ._build_index import build as build
    from ._build_index import build_index as build_index
    from ._check_index import check_end as check_end
    from ._dali_text import count_dali as count_dali
    from ._dali_text import read_dali as read_dali
    from ._dali_text import write_dali as write_dali
    from ._description import Description as Description
    from ._description import ShardEntry as ShardEntry
    from ._description import read_description as read_description
    from ._description import seen_from as seen_from
    from ._description import write_description as write_description
    from ._fetch_ranges import Range as Range
    from ._fetch_ranges import coalesce as coalesce
    from ._fetch_ranges import open_bytes as open_bytes
    from ._index_dataset import index_shards as index_shards
    from ._index_location import dali_name as dali_name
    from ._index_location import has_index as has_index
    from ._index_location import index_url as index_url
    from ._index_location import load_count as load_count
    from ._index_location import load_index as load_index
    from ._index_location import save_index as save_index
    from ._index_while_reading import GrowingIndex as GrowingIndex
    from ._index_while_reading import StoreIndexes as StoreIndexes
    from ._indexed_shards import IndexedShards as IndexedShards
    from ._indexed_shards import SampleLocation as SampleLocation
    from ._recent_indexes import RecentIndexes as RecentIndexes
    from ._seekable_range import ReadsRanges as ReadsRanges
    from ._seekable_range import SeekableRange as SeekableRange
    from ._shard_index import Extent as Extent
    from ._shard_index import Keys as Keys
    from ._shard_index import ShardIndex as ShardIndex
    from ._shard_reader import ShardReader as ShardReader
    from ._shard_reader import read_by_shard as read_by_shard
    from ._split_names import sample_and_field as sample_and_field
    from ._verify_shards import VerifyShards as VerifyShards

# The file of each name.
_FILES = {
    "_build_index": "IndexBuilder build build_index",
    "_check_index": "check_end",
    "_dali_text": "count_dali read_dali write_dali",
    "_description": "Description ShardEntry read_description seen_from write_description",
    "_fetch_ranges": "Range coalesce open_bytes",
    "_index_dataset": "index_shards",
    "_index_location": "dali_name has_index index_url load_count load_index save_index",
    "_index_while_reading": "GrowingIndex StoreIndexes",
    "_indexed_shards": "IndexedShards SampleLocation",
    "_recent_indexes": "RecentIndexes",
    "_seekable_range": "ReadsRanges SeekableRange",
    "_shard_index": "Extent Keys ShardIndex",
    "_shard_reader": "ShardReader read_by_shard",
    "_split_names": "sample_and_field",
    "_verify_shards": "VerifyShards",
}
_LAZY, _load = lazy_names(__name__, _FILES)

__all__ = sorted(_LAZY)  # noqa: PLE0605  # from the table

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = _load
