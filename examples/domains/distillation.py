"""Distillation: the outputs of a teacher lie in shards of their own and are joined to the images by key.

python examples/domains/distillation.py
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from shapes import NAMES, samples

import webdataset as wds


def teacher(image):
    """Stands for a large model: ten numbers that depend on the image."""
    return np.resize(image.astype(np.float32).mean((0, 1)), len(NAMES)) + np.arange(len(NAMES), dtype=np.float32)


def main():
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/images-%03d.tar", maxcount=20) as sink:
            for sample in samples(60, size=24):
                sink.write({"__key__": sample["__key__"], "png": sample["jpg"], "cls": sample["cls"]})
        shards = [f"images-{number:03d}.tar" for number in range(3)]
        # Once: a pass of the teacher over the images, shard by shard, so that both have the same samples in the same order.
        for name in shards:
            images = wds.WebDataset(f"{folder}/{name}", shardshuffle=False).decode("rgb8").to_tuple("__key__", "png")
            with wds.TarWriter(f"{folder}/teacher-{name}") as sink:
                for key, image in images:
                    sink.write({"__key__": key, "logits.npy": teacher(image)})
        # Then: train on both. Keys that do not agree are an error, never a wrong pair.
        sources = [
            wds.WebDataset([f"{folder}/{prefix}{name}" for name in shards], shardshuffle=False, index=False)
            for prefix in ("", "teacher-")
        ]
        dataset = wds.DataPipeline(
            wds.join_columns(*sources),
            wds.shuffle(60),
            wds.decode("rgb8"),
            wds.to_tuple("png", "logits.npy", "cls"),
            wds.batched(20),
        )
        pairs = right = 0
        for images, logits, _ in dataset:
            pairs += len(images)
            right += sum(np.array_equal(teacher(image), row) for image, row in zip(images, logits, strict=True))
    assert pairs == right == 60
    print(f"{pairs} images, each with the outputs of the teacher for it")


if __name__ == "__main__":
    main()
