"""Batches that mix what several workers read: batch in the workers, then take apart, shuffle and batch again.

    python examples/rebatch.py

A worker reads whole shards, so its batches hold neighbours. Large batches travel cheaply between processes, and after the
loader the pipeline goes on with the same methods.
"""

import tempfile

from shapes import samples

import webdataset as wds


def shard_of(sample):
    return sample["cls"], sample["__url__"][-7:-4]


def main(workers=2):
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/shapes-%03d.tar", maxcount=100) as sink:
            for sample in samples(400, size=16):
                sink.write(sample)
        dataset = (
            wds.WebDataset(f"{folder}/shapes-{{000..003}}.tar", shardshuffle=100)
            .shuffle(50)
            .decode()
            .map(shard_of)
            .batched(20)
        )
        loader = wds.WebLoader(dataset, batch_size=None, num_workers=workers)
        before = [len(set(origins)) for _, origins in loader]
        loader = loader.unbatched().shuffle(200).batched(64)
        after = [len(set(origins)) for _, origins in loader]
    print("shards in each batch of a worker:      ", before)
    print("shards in each batch after rebatching: ", after)
    assert sum(after) / len(after) > sum(before) / len(before)


if __name__ == "__main__":
    main()
