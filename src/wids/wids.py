"""The names of the module `wids.wids`: datasets, samplers, and the small functions that programs import from there."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

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
from ._samplers import ChunkedSampler, DistributedChunkedSampler, ShardedSampler, ShardListSampler
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

Range = tuple[int, int]


def lengths_to_ranges(lengths: Sequence[int]) -> list[Range]:
    """Half-open ranges that follow each other.

    >>> lengths_to_ranges([3, 2])
    [(0, 3), (3, 5)]
    """
    return list(pairwise([0, *accumulate(lengths)]))


def intersect_range(a: Range, b: Range) -> Range | None:
    """What two ranges have in common, if anything.

    >>> intersect_range((0, 3), (2, 5)), intersect_range((0, 2), (2, 5))
    ((2, 3), None)
    """
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low < high else None


def intersect_ranges(rangelist: Sequence[Range], r: Range) -> list[Range]:
    """What each range has in common with `r`, without those that have nothing.

    >>> intersect_ranges([(0, 3), (3, 5), (5, 9)], (2, 5))
    [(2, 3), (3, 5)]
    """
    return [found for each in rangelist if (found := intersect_range(each, r)) is not None]


def iterate_ranges(
    ranges: Sequence[Range], rng: random.Random, indexshuffle: bool = True, shardshuffle: bool = True
) -> Iterator[int]:
    """All integers of the ranges: the ranges in random order, then the integers of each.

    >>> sorted(iterate_ranges([(0, 3), (5, 6)], random.Random(0)))
    [0, 1, 2, 5]
    """
    numbers = list(range(len(ranges)))
    if shardshuffle:
        rng.shuffle(numbers)
    for number in numbers:
        inside = list(range(*ranges[number]))
        if indexshuffle:
            rng.shuffle(inside)
        yield from inside
