"""The names of the module `wids.wids`: datasets, samplers, and the small functions that programs import from there."""

from __future__ import annotations

from collections.abc import Sequence

from ._indexed_tar import (
    IndexedTarSamples,
    LRUShards,
    cache_localname,
    compute_file_md5sum,
    compute_num_samples,
    default_localname,
    group_by_key,
    splitname,
)
from ._samplers import (
    ChunkedSampler,
    DistributedChunkedSampler,
    Range,
    ShardedSampler,
    ShardListSampler,
    iterate_ranges,
    lengths_to_ranges,
)
from ._shard_list_dataset import ShardListDataset
from .wids_decode import default_decoder, interpret_transformations

__all__ = [
    "ChunkedSampler",
    "DistributedChunkedSampler",
    "IndexedTarSamples",
    "LRUShards",
    "ShardListDataset",
    "ShardListSampler",
    "ShardedSampler",
    "cache_localname",
    "compute_file_md5sum",
    "compute_num_samples",
    "default_decoder",
    "default_localname",
    "group_by_key",
    "interpret_transformations",
    "intersect_range",
    "intersect_ranges",
    "iterate_ranges",
    "lengths_to_ranges",
    "splitname",
]


def intersect_range(a: Range, b: Range) -> Range | None:
    """The intersection of two ranges; None if it is empty.

    >>> intersect_range((0, 3), (2, 5)), intersect_range((0, 2), (2, 5))
    ((2, 3), None)
    """
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low < high else None


def intersect_ranges(rangelist: Sequence[Range], r: Range) -> list[Range]:
    """The intersections of ranges with `r`, without empty ones.

    >>> intersect_ranges([(0, 3), (3, 5), (5, 9)], (2, 5))
    [(2, 3), (3, 5)]
    """
    return [found for each in rangelist if (found := intersect_range(each, r)) is not None]
