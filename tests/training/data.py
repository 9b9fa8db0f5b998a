"""Small shards for the training tests: sample n has a vector and a label that tell its number."""

import numpy as np

import webdataset as wds

COUNTS = (31, 7, 2, 44, 19)  # uneven, 103 in all
N = sum(COUNTS)


def write_shards(folder, counts=COUNTS, index=True, prefix="train"):
    """One shard for each count; returns their names."""
    number, names = 0, []
    for shard, count in enumerate(counts):
        name = f"{folder}/{prefix}-{shard:03d}.tar"
        with wds.TarWriter(name) as sink:
            for _ in range(count):
                sink.write(
                    {
                        "__key__": f"{number:05d}",
                        "npy": np.full(4, number % 7, np.float32),
                        "cls": number,
                    }
                )
                number += 1
        names.append(name)
    if index:
        from webdataset.index import index_shards

        index_shards(names)
    return names
