"""An ImageNet-like tree of generated images: DATA/{train,val}/CLASS/*.JPEG.

python fake_imagenet.py data --train 3000 --val 600
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from shapes import NAMES, draw


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--train", type=int, default=3000)
    parser.add_argument("--val", type=int, default=600)
    parser.add_argument("--size", type=int, default=40)
    args = parser.parse_args()
    for split, count, seed in (("train", args.train, 0), ("val", args.val, 1)):
        rng = np.random.default_rng(seed)
        for number in range(count):
            label = number % len(NAMES)
            folder = args.data / split / f"n{label:08d}"
            folder.mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(draw(rng, label, args.size))
            picture.save(folder / f"n{label:08d}_{number}.JPEG", quality=90)
        print(f"{count} images in {args.data / split}")


if __name__ == "__main__":
    main()
