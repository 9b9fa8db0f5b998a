"""Run by a Python that has `datasets`: print key, class and size of the picture of every sample of a shard."""

import json
import sys


def main(shard, cache):
    from datasets import Image, load_dataset

    dataset = load_dataset("webdataset", data_files={"train": shard}, split="train", cache_dir=cache)
    dataset = dataset.cast_column("jpg", Image(decode=False))
    for row in dataset:
        print(json.dumps([row["__key__"], row["cls"], len(row["jpg"]["bytes"])]))


if __name__ == "__main__":
    main(*sys.argv[1:])
