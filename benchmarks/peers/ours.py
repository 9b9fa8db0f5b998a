"""This library, through its public names. And what the machine can do at most, measured in the same run."""

import mmap
import os
import zlib
from itertools import islice
from pathlib import Path

import data

VERSIONS = ["numpy", "torch", "simplejpeg", "opencv-python-headless", "orjson"]
PREPARED = dict.fromkeys(["tokens", "index text", "workers: tokens", "workers: token batches"], "tokens-0.idx")


def photos(folder, **image):
    import webdataset as wds

    spec = image.pop("spec", "rgb8")
    dataset = wds.WebDataset(data.shards(folder, "photos"), shardshuffle=False)
    return dataset.decode(spec, size=224, crop="random", flip=True, **image).to_tuple("jpg", "cls").batched(64)


def raw(folder):
    import webdataset as wds

    dataset = wds.WebDataset(data.shards(folder, "raw"), shardshuffle=False)
    return dataset.decode("rgb8", size=224, crop="window", flip=True).to_tuple("ppm", "cls").batched(64)


def bytes_of_photos(folder, **options):
    import webdataset as wds

    return wds.WebDataset(data.shards(folder, "jpegs"), shardshuffle=False, **options).to_tuple("jpg").batched(64)


def workers(make):
    """A loader without workers, and with two of each kind; and the dataset by itself."""
    return {
        "ours, no workers": lambda folder: threads(make(folder), 0),
        "ours, 2 threads": lambda folder: threads(make(folder)),
        "ours, 2 processes": lambda folder: processes(make(folder)),
        "ours, no loader": make,
    }


def threads(dataset, number=2):
    import webdataset as wds

    return wds.WebLoader(dataset, num_workers=number, workers="threads")


def processes(dataset):
    import webdataset as wds

    return wds.WebLoader(dataset, batch_size=None, num_workers=2)


def second_epoch(batches):
    for _ in batches:
        pass
    yield from batches


def small(folder):
    import webdataset as wds

    dataset = wds.WebDataset(data.shards(folder, "small"), shardshuffle=False)
    return dataset.decode().to_tuple("json", "npy").batched(256)


def arrays(folder):
    """The same samples; what travels from worker processes is one array instead of 256 dicts."""
    import webdataset as wds

    dataset = wds.WebDataset(data.shards(folder, "small"), shardshuffle=False)
    return dataset.decode().to_tuple("npy").batched(256)


def tokens(folder, seed=None):
    import webdataset as wds

    return wds.ArrayBatches(data.shards(folder, "tokens"), "npy", 256, seed=seed)


def tokens_one_by_one(folder):
    import webdataset as wds

    return wds.WebDataset(data.shards(folder, "tokens"), shardshuffle=False).decode().to_tuple("npy").batched(256)


def prepare(row, folder):
    """Write the indexes beside the shards."""
    import webdataset as wds

    wds.index_shards(data.shards(folder, "tokens"))


def one_numpy_thread():
    """NumPy's threads spin for a tenth of a second after their start, which a row as short as that would count."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"


def index_text(folder):
    """The indexes of the tokens: text to arrays."""
    one_numpy_thread()
    from webdataset.index import read_dali

    for path in data.shards(folder, "tokens"):
        yield [read_dali(Path(path).with_suffix(".idx").read_bytes())]


def read(folder, kind, at_once, **options):
    import webdataset as wds

    samples = iter(wds.WebDataset(data.shards(folder, kind), shardshuffle=False, **options))
    while some := list(islice(samples, at_once)):
        yield [some]


# Views: what do samples that are not copied out of the window bring, for bytes that are used or not?


def look(batches):
    """Every byte is read once: a view has not cost all that it costs before."""
    for samples in batches:
        for sample in samples[0]:
            zlib.adler32(sample["jpg"])
        yield samples


def fill(batches):
    """Every byte is copied into the array of a batch."""
    import numpy as np

    batch = np.empty((64, 1 << 17), np.uint8)
    for number, samples in enumerate(batches):
        for sample in samples[0]:
            batch[number % 64, : len(sample["jpg"])] = np.frombuffer(sample["jpg"], np.uint8)
        yield samples


def shuffled(folder, **options):
    import webdataset as wds

    dataset = wds.WebDataset(data.shards(folder, "jpegs") * 4, shardshuffle=False, **options)
    return ([[sample]] for sample in islice(dataset.shuffle(1000), data.COUNTS["jpegs"]))


def sketch(folder, windows):
    """A reader with the same headers, checksums and dicts, and nothing else."""
    one_numpy_thread()
    for path in data.shards(folder, "jpegs"):
        for window, members in windows(path):
            view = memoryview(window)
            yield [[{"__key__": name[:-4], "__url__": path, "jpg": view[i:j]} for name, _, i, j in members]]


def new_windows(path):
    """The file by the megabyte. What is left of a window is moved to the front of the next one."""
    from webdataset.tar import BLOCK, WINDOW
    from webdataset.tar._walk_window import walk

    window, left = mmap.mmap(-1, WINDOW), 0
    with open(path, "rb", buffering=0) as file:
        while got := file.readinto(memoryview(window)[left:]):
            columns = walk(window, 0, left + got)
            yield window, zip(*columns, strict=True)
            used = -(-columns[3][-1] // BLOCK) * BLOCK if columns[3] else 0
            left += got - used
            following = mmap.mmap(-1, WINDOW)
            following[:left] = window[used : used + left]
            window = following


def mapped(path):
    from webdataset.tar._walk_window import walk

    with open(path, "rb") as file:
        window = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        yield window, zip(*walk(window, 0, len(window)), strict=True)


# The machine.


def by_hand(folder):
    """The kernels of the antialiased row in two bare threads, from memory: no reading, no order, no samples."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    import simplejpeg
    import torch
    from crops import SIZE, random_box

    torch.set_num_threads(1)
    encoded = [data.photo(number) for number in range(64)]

    def batch(_):
        out, buffer = np.empty((64, SIZE, SIZE, 3), "u1"), bytearray(375 * 500 * 3)
        for number, jpeg in enumerate(encoded):
            pixels = simplejpeg.decode_jpeg(jpeg, buffer=buffer)
            x, y, w, h = random_box(500, 375)
            part = np.ascontiguousarray(pixels[y : y + h, x : x + w]).reshape(1, h, w, 3)
            planes = torch.from_numpy(part).permute(0, 3, 1, 2)
            made = torch.nn.functional.interpolate(planes, (SIZE, SIZE), mode="bilinear", antialias=True)
            out[number] = made[0].permute(1, 2, 0).numpy()
        return out

    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(batch, range(data.COUNTS["photos"] // 64))


def decode_one_core(folder):
    """libjpeg-turbo into one buffer, nothing else."""
    import simplejpeg

    encoded, buffer = [data.photo(number) for number in range(64)], bytearray(375 * 500 * 3)
    for _ in range(data.COUNTS["photos"] // 64):
        for jpeg in encoded:
            simplejpeg.decode_jpeg(jpeg, buffer=buffer)
        yield [encoded]


def page_cache(folder):
    """The photos' shards read into one buffer; a sample here is 100 kB."""
    return cached(folder, "photos")


def cached(folder, kind):
    buffer, paths = bytearray(1 << 20), data.shards(folder, kind)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
        yield [range(data.COUNTS[kind] // len(paths))]


def memcpy(folder):
    """100 kB from one place to another."""
    import numpy as np

    source, target = np.zeros(64 * 100_000, "u1"), np.empty(64 * 100_000, "u1")
    for _ in range(data.COUNTS["photos"] // 64):
        target[:] = source
        yield [range(64)]


ROWS = {
    "limits": {
        "page cache read, 100 kB a sample": page_cache,
        "memcpy, 100 kB a sample": memcpy,
        "libjpeg-turbo decode alone, one core": decode_one_core,
        "kernels by hand, from memory, two threads": by_hand,
    },
    "antialiased": {
        "ours, 2 threads": lambda folder: threads(photos(folder)),
        "ours, 2 processes": lambda folder: processes(photos(folder)),
    },
    "plain": {
        "ours, 2 threads": lambda folder: threads(photos(folder, antialias=False)),
        "ours, 2 processes": lambda folder: processes(photos(folder, antialias=False)),
    },
    "float": {
        "ours, 2 threads": lambda folder: threads(photos(folder, spec="torchrgb", normalize="imagenet")),
        "ours, 2 processes": lambda folder: processes(photos(folder, spec="torchrgb", normalize="imagenet")),
    },
    "raw": {
        "ours, 2 processes": lambda folder: processes(raw(folder)),
        "ours, 2 threads": lambda folder: threads(raw(folder)),
        "ours, no workers": raw,
    },
    "small": {
        "ours": small,
        "ours, 2 threads": lambda folder: threads(small(folder)),
        "ours, threads chosen": lambda folder: threads(small(folder), "auto"),
        "ours, 2 processes": lambda folder: processes(small(folder)),
        "ours, arrays alone": arrays,
        "ours, arrays alone, 2 processes": lambda folder: processes(arrays(folder)),
    },
    "tokens": {
        "ours, whole batches, in order": tokens,
        "ours, whole batches, globally shuffled": lambda folder: tokens(folder, seed=1),
        "ours, sample by sample": tokens_one_by_one,
    },
    "index text": {"ours": index_text},
    "small bytes": {
        "ours": lambda folder: read(folder, "small", 256),
        "ours, copy=False": lambda folder: read(folder, "small", 256, copy=False),
    },
    "small bytes, gzip": {"ours": lambda folder: read(folder, "small.gz", 256)},
    "photo bytes, gzip": {"ours": lambda folder: read(folder, "jpegs.gz", 1)},
    "photo bytes": {
        "ours": lambda folder: read(folder, "jpegs", 1),
        "page cache read": lambda folder: cached(folder, "jpegs"),
    },
    "workers: json + npy": workers(small),
    "workers: npy": workers(arrays),
    "workers: raw": workers(raw),
    "workers: tokens": workers(tokens_one_by_one)
    | {
        "ours, no workers, second epoch": lambda folder: second_epoch(threads(tokens_one_by_one(folder), 0)),
        "ours, 2 processes, second epoch": lambda folder: second_epoch(processes(tokens_one_by_one(folder))),
    },
    "workers: token batches": workers(tokens),
    "workers: photo bytes": workers(bytes_of_photos)
    | {"ours, 2 processes, copy=False": lambda folder: processes(bytes_of_photos(folder, copy=False))},
    "workers: photos": workers(photos),
    "blobs": {
        "ours": lambda folder: read(folder, "blobs", 1),
        "page cache read": lambda folder: cached(folder, "blobs"),
    },
    "views": {
        "ours": lambda folder: read(folder, "jpegs", 1),
        "ours, looked at": lambda folder: look(read(folder, "jpegs", 1)),
        "ours, into batches": lambda folder: fill(read(folder, "jpegs", 1)),
        "ours, shuffle(1000)": shuffled,
        "ours, copy=False": lambda folder: read(folder, "jpegs", 1, copy=False),
        "ours, copy=False, looked at": lambda folder: look(read(folder, "jpegs", 1, copy=False)),
        "ours, copy=False, into batches": lambda folder: fill(read(folder, "jpegs", 1, copy=False)),
        "ours, copy=False, shuffle(1000)": lambda folder: shuffled(folder, copy=False),
        "sketch, views of new windows": lambda folder: sketch(folder, new_windows),
        "sketch, mapped views": lambda folder: sketch(folder, mapped),
        "sketch, mapped views, looked at": lambda folder: look(sketch(folder, mapped)),
        "page cache read": lambda folder: cached(folder, "jpegs"),
    },
}
