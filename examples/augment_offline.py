"""Augment once, train often: read a shard, change its images, write a new shard.

    python examples/augment_offline.py

Such a function is one job for a queue or a cluster: shards in, shards out, and an output appears only when it is complete.
"""

import tempfile

import numpy as np
from shapes import samples

import webdataset as wds


def augmented(sample, copies, seed=0):
    """Several versions of a sample under new keys: turned, mirrored, brighter or darker."""
    # The key is the seed, so the result does not depend on the order or on who does the work.
    rng = np.random.default_rng([seed, *sample["__key__"].encode()])
    for copy in range(copies):
        image = np.rot90(sample["jpg"], rng.integers(4))
        if rng.random() < 0.5:
            image = image[:, ::-1]
        image = (image * rng.uniform(0.7, 1.3)).clip(0, 255).astype(np.uint8)
        yield {"__key__": f"{sample['__key__']}-{copy}", "jpg": np.ascontiguousarray(image), "cls": sample["cls"]}


def augment_shard(source, target, copies=3):
    """Read `source`, write `target`, return the number of samples written."""
    with wds.TarWriter(target, encoder_options={"jpg": {"quality": 92}}) as sink:
        for sample in wds.WebDataset(source, shardshuffle=False).decode("rgb8"):
            for version in augmented(sample, copies):
                sink.write(version)
    return sink.count


def main():
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/plain-%03d.tar", maxcount=20) as sink:
            for sample in samples(60):
                sink.write(sample)
        for number in range(3):
            source, target = f"{folder}/plain-{number:03d}.tar", f"{folder}/augmented-{number:03d}.tar"
            print(f"{source[-13:]} → {target[-17:]}: {augment_shard(source, target)} samples")
        keys = [
            sample["__key__"] for sample in wds.WebDataset(f"{folder}/augmented-{{000..002}}.tar", shardshuffle=False)
        ]
    print(f"{len(keys)} samples, {keys[0]} to {keys[-1]}")


if __name__ == "__main__":
    main()
