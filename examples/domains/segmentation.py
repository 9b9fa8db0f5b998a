"""Segmentation: an image and its mask get the same crop and the same flip.

python examples/domains/segmentation.py
"""

import tempfile

import numpy as np

import webdataset as wds

SIZE = 24


def scene(rng, size=40):
    """A bright square on a dark background, and a mask that says where it is."""
    mask = np.zeros((size, size), np.uint8)
    top, left = rng.integers(4, size - 16, 2)
    mask[top : top + 12, left : left + 12] = 1
    image = rng.integers(0, 60, (size, size, 3), dtype=np.uint8)
    image[mask == 1] += 180
    return image, mask


def crop_both(sample):
    """The random numbers belong to the sample: the same in every run, whichever worker makes it."""
    rng = wds.rng(sample)
    image, mask = sample["image.png"], sample["mask.png"]
    top, left = (rng.randrange(length - SIZE + 1) for length in mask.shape)
    window = np.s_[top : top + SIZE, left : left + SIZE]
    step = rng.choice([1, -1])
    return {**sample, "image.png": image[window][:, ::step], "mask.png": mask[window][:, ::step]}


def main():
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/scenes-%03d.tar", maxcount=20) as sink:
            for number in range(40):
                image, mask = scene(rng)
                sink.write({"__key__": f"{number:03d}", "image.png": image, "mask.png": mask})
        dataset = (
            wds.WebDataset(f"{folder}/scenes-{{000..001}}.tar", shardshuffle=True)
            .decode("rgb8")
            .map_dict(**{"mask.png": lambda mask: mask[..., 0] if mask.ndim == 3 else mask})
            .map(crop_both)
            .to_tuple("image.png", "mask.png")
            .batched(8)
        )
        right = [((images.mean(3) > 120) == masks).mean() for images, masks in dataset]
    print(f"{8 * len(right)} crops; image and mask agree in {100 * np.mean(right):.1f}% of the pixels")


if __name__ == "__main__":
    main()
