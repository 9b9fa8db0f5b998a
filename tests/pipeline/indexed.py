"""Indexed shards for tests."""

import random

from webdataset.index import build_index, save_index
from webdataset.testing import make_shard

N, SHARDS = 1003, 17


def uneven_counts(samples=N, shards=SHARDS, seed=1):
    """So many samples in shards of very different sizes, one of them with a single sample."""
    cuts = sorted(random.Random(seed).sample(range(2, samples), shards - 2))
    return [b - a for a, b in zip([0, 1, *cuts], [1, *cuts, samples], strict=True)]


def write_shards(folder, counts, index=True, size=0):
    """Shards with so many samples each; keys count through."""
    urls, key = [], 0
    for number, count in enumerate(counts):
        samples = [{"__key__": f"{key + i:05d}", "cls": key + i, "bin": b"x" * size} for i in range(count)]
        url = make_shard(folder / f"part-{number:03d}.tar", samples)
        if index:
            save_index(build_index(url), url)
        urls.append(url)
        key += count
    return urls
