"""The public webdataset 1.0.2 under torch's DataLoader: two worker processes, whole batches made in the workers."""

from itertools import islice

import data

VERSIONS = ["webdataset", "torch", "numpy", "pillow", "simplejpeg", "opencv-python-headless"]


def photos(folder, decode, workers=2):
    import torch
    import webdataset as wds

    torch.set_num_threads(1)

    def jpg(key, encoded):
        return decode(encoded) if key == ".jpg" else None

    shards = data.shards(folder, "photos")
    dataset = wds.WebDataset(shards, shardshuffle=False).decode(jpg).to_tuple("jpg", "cls").batched(64)
    return wds.WebLoader(dataset, batch_size=None, num_workers=workers)


def pillow(folder, workers=2):
    import crops

    return photos(folder, crops.with_pillow, workers)


def floats(folder):
    import crops

    return photos(folder, crops.with_pillow_as_floats)


def opencv(folder):
    import crops
    import cv2

    cv2.setNumThreads(1)
    return photos(folder, crops.with_opencv)


def small(folder):
    import webdataset as wds

    dataset = wds.WebDataset(data.shards(folder, "small"), shardshuffle=False)
    return dataset.decode().to_tuple("json", "npy").batched(256)


def tokens(folder):
    import webdataset as wds

    return wds.WebDataset(data.shards(folder, "tokens"), shardshuffle=False).decode().to_tuple("npy").batched(256)


def read(folder, kind, at_once):
    import webdataset as wds

    samples = iter(wds.WebDataset(data.shards(folder, kind), shardshuffle=False))
    while some := list(islice(samples, at_once)):
        yield [some]


ROWS = {
    "antialiased": {
        "public webdataset + DataLoader, PIL, 2 processes": pillow,
        # As many as would give our rate, had they the cores: for the memory that it takes.
        "public webdataset + DataLoader, PIL, 4 processes": lambda folder: pillow(folder, 4),
    },
    "plain": {"public webdataset, simplejpeg + OpenCV, 2 processes": opencv},
    "float": {"public webdataset + DataLoader, PIL, 2 processes": floats},
    "small": {"public webdataset": small},
    "tokens": {"public webdataset": tokens},
    "small bytes": {"public webdataset": lambda folder: read(folder, "small", 256)},
    "small bytes, gzip": {"public webdataset": lambda folder: read(folder, "small.gz", 256)},
    "photo bytes, gzip": {"public webdataset": lambda folder: read(folder, "jpegs.gz", 1)},
    "photo bytes": {"public webdataset": lambda folder: read(folder, "jpegs", 1)},
    "blobs": {"public webdataset": lambda folder: read(folder, "blobs", 1)},
}
