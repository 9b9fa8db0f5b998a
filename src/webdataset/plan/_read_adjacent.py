"""Samples that follow each other in a shard, read and parsed together.

The steps of a worker are such runs if shards are read in the order of storage. Looking up 256 samples of 1 kB one by
one takes four times as long.
"""

from __future__ import annotations

from collections.abc import Sequence

from webdataset import tar
from webdataset.errors import WebDatasetError
from webdataset.index import IndexedShards
from webdataset.samples import Gathered, Gatherer, Sample

# A shorter run is looked up as fast; a longer one would hold large samples in memory twice.
_LEAST_SAMPLES = 16
_MOST_BYTES = 1 << 22


def read_adjacent(dataset: IndexedShards, numbers: Sequence[int]) -> list[Sample] | None:
    """Return the samples with these numbers; None if they must be looked up one by one, for any reason.

    Members that are not plain, or not as the index says, are left to the lookup, which handles all cases and errors.
    """
    run = dataset.stored(numbers, _MOST_BYTES) if len(numbers) >= _LEAST_SAMPLES else None
    members = None if run is None else tar.plain_run(run.data)
    if run is None or members is None:
        return None
    if not dataset.copy:
        members = members._replace(data=memoryview(run.data))
    gathered = Gathered([], [])
    gatherer = Gatherer(url=run.url, local_path=run.local_path)
    try:
        gatherer.feed(members, gathered)
    except WebDatasetError:
        return None
    gatherer.finish(gathered)
    same = "".join([sample["__key__"] for sample in gathered.samples]) == run.keys
    return gathered.samples if same and len(gathered.samples) == len(numbers) else None
