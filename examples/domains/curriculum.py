"""Several sources in exact shares that change during training: more of the hard source, step by step.

python examples/domains/curriculum.py
"""

import tempfile
from collections import Counter

import webdataset as wds


def source(folder, name):
    with wds.ShardWriter(f"{folder}/{name}-%03d.tar", maxcount=100) as sink:
        for number in range(200):
            sink.write({"__key__": f"{name}{number:04d}", "txt": name})
    shards = f"{folder}/{name}-{{000..001}}.tar"
    return wds.WebDataset(shards, shardshuffle=True, seed=2, repeat=True).decode().to_tuple("txt")


def main():
    with tempfile.TemporaryDirectory() as folder:
        easy, hard = source(folder, "easy"), source(folder, "hard")
        later = [(1000, [0.5, 0.5]), (2000, [0.1, 0.9])]  # from this sample on, these shares
        mixed = wds.mix([(easy, 0.9), (hard, 0.1)], schedule=later).with_epoch(3000)
        names = [name for (name,) in mixed]
    for start in (0, 1000, 2000):
        counted = Counter(names[start : start + 1000])
        print(f"samples {start} to {start + 999}: {counted['easy']} easy, {counted['hard']} hard")


if __name__ == "__main__":
    main()
