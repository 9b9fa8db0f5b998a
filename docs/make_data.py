"""Writes the data that the pages read, `data/train-000000.tar` … `data/train-000007.tar`: `python docs/make_data.py`.

Eight shards of ten samples each, 80 in all. A key is the number of the shard and the number in the shard: `0203` is
sample 3 of shard 2. The fields:

    jpg     an image of 20 × 16 random pixels
    cls     the number in the shard, 0 to 9
    json    {"n": 3, "camera": "left"}, or "right" where n is odd
    txt     "number 3"
    npy     the array [0, 1, 2]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import webdataset as wds


def make_data(folder: Path) -> None:
    """Write the shards into `folder/data`."""
    (folder / "data").mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for shard in range(8):
        with wds.TarWriter(str(folder / f"data/train-{shard:06d}.tar")) as sink:
            for number in range(10):
                fields = {
                    "jpg": rng.integers(0, 255, (16, 20, 3), dtype=np.uint8),
                    "cls": number,
                    "json": {"n": number, "camera": ("left", "right")[number % 2]},
                    "txt": f"number {number}",
                    "npy": np.arange(3),
                }
                sink.write({"__key__": f"{shard:02d}{number:02d}", **fields})


if __name__ == "__main__":
    make_data(Path())
