"""What do threads, worker processes and the hand-over of batches bring, and what do they cost?

    python benchmarks/loader.py [WORD …]       # only the rows with all of these words

Three questions, each with its own rows, all in one run, interleaved, best of three. Prints one JSON object, then a table.

* jpeg: 640 × 480 JPEGs out of memory, decoded, cropped to 224, batches of 64; samples per second.
* fields: batches of 1 MB in 100 fields and in one field, made at no cost, from two workers; batches per second.
* small: items that are numbers, through one function; microseconds per item.
"""

import argparse
import io
import json
import time
import warnings

import lab
import numpy as np
from PIL import Image
from torch.utils.data import DataLoader

import webdataset as wds

warnings.filterwarnings("ignore", message="This DataLoader will create")
PHOTOS, BATCHES, ITEMS = (128, 4, 1000) if lab.SMALL else (640, 200, 100_000)


def pictures(count=32):
    rng = np.random.default_rng(0)
    for _ in range(count):
        noise = rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)
        stream = io.BytesIO()
        Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC).save(stream, "jpeg", quality=95)
        yield stream.getvalue()


JPEGS = list(pictures())


class Samples:
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return ({"__key__": str(n), "jpg": JPEGS[n % len(JPEGS)], "cls": b"3"} for n in range(self.count))


def crop(image):
    return np.ascontiguousarray(image[100:324, 100:324])


def images(count=PHOTOS):
    return wds.DataPipeline(
        Samples(count), wds.decode("rgb8"), wds.to_tuple("jpg", "cls"), wds.map_tuple(crop, None), wds.batched(64)
    )


def with_fields(number, count):
    return {f"f{k}": np.empty(2**20 // count, np.uint8) for k in range(count)}


def batches(count, fields):
    return wds.DataPipeline(range(count), wds.map(lambda number: with_fields(number, fields)))


def small(count=ITEMS):
    return wds.DataPipeline(range(count), wds.map(abs))


def rate(loader, items):
    start = time.perf_counter()
    for _ in loader:
        pass
    return items / (time.perf_counter() - start)


def threads(dataset, n):
    return wds.WebLoader(dataset, num_workers=n, workers="threads")


def processes(dataset, n):
    return wds.WebLoader(dataset, num_workers=n, batch_size=None)


def torch_loader(dataset, n):
    return DataLoader(dataset, num_workers=n, batch_size=None)


CASES = {
    "jpeg, no workers": lambda: rate(images(), PHOTOS),
    "jpeg, 1 thread": lambda: rate(threads(images(), 1), PHOTOS),
    "jpeg, 2 threads": lambda: rate(threads(images(), 2), PHOTOS),
    "jpeg, 2 processes": lambda: rate(processes(images(2 * PHOTOS), 2), 4 * PHOTOS),
    "jpeg, 2 torch DataLoader workers": lambda: rate(torch_loader(images(2 * PHOTOS), 2), 4 * PHOTOS),
    "100 fields, 2 processes": lambda: rate(processes(batches(BATCHES, 100), 2), 2 * BATCHES),
    "100 fields, 2 torch DataLoader workers": lambda: rate(torch_loader(batches(BATCHES, 100), 2), 2 * BATCHES),
    "1 field, 2 processes": lambda: rate(processes(batches(BATCHES, 1), 2), 2 * BATCHES),
    "1 field, 2 torch DataLoader workers": lambda: rate(torch_loader(batches(BATCHES, 1), 2), 2 * BATCHES),
    "small, no loader (µs)": lambda: -1e6 / rate(small(), ITEMS),
    "small, no workers (µs)": lambda: -1e6 / rate(threads(small(), 0), ITEMS),
    "small, 1 thread (µs)": lambda: -1e6 / rate(threads(small(), 1), ITEMS),
    "small, 2 threads (µs)": lambda: -1e6 / rate(threads(small(), 2), ITEMS),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    words = parser.parse_args().words
    chosen = {name: case for name, case in CASES.items() if all(word in name for word in words)}
    best = dict.fromkeys(chosen, float("-inf"))
    for _ in range(lab.ROUNDS):
        for name, case in chosen.items():
            best[name] = max(best[name], case())
    results = {name: round(abs(value), 2) for name, value in best.items()}
    print(json.dumps(results))
    for name, value in results.items():
        print(f"{name:<42}{value:>12,.1f}")


if __name__ == "__main__":
    main()
