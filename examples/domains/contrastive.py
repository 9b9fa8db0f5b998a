"""Contrastive learning: two views of every image, from one decoding.

python examples/domains/contrastive.py
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from shapes import samples

import webdataset as wds

SIZE, VIEWS = 16, 2


def views(sample):
    """Crops at different places. The random numbers belong to the sample and the epoch, not to the worker."""
    rng, image = wds.rng(sample), sample["jpg"]
    made = []
    for _ in range(VIEWS):
        top, left = (rng.randrange(length - SIZE + 1) for length in image.shape[:2])
        view = image[top : top + SIZE, left : left + SIZE]
        made.append(np.ascontiguousarray(view[:, :: rng.choice([1, -1])] * np.float32(rng.uniform(0.8, 1.2))))
    return (*made, sample["cls"])


def main():
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/shapes-%03d.tar", maxcount=32) as sink:
            for sample in samples(64, size=32):
                sink.write(sample)
        dataset = wds.WebDataset(f"{folder}/shapes-{{000..001}}.tar", shardshuffle=True, seed=4)
        dataset = dataset.shuffle(64).decode("rgb").map(views).batched(16)
        epochs = []
        for _ in range(2):
            epochs.append([(first, second) for first, second, _ in dataset])
        for first, second in epochs[0]:
            assert first.shape == second.shape == (16, SIZE, SIZE, 3) and not np.array_equal(first, second)
    assert not np.array_equal(epochs[0][0][0], epochs[1][0][0])
    print(f"{16 * len(epochs[0])} pairs of views, others in the next epoch")


if __name__ == "__main__":
    main()
