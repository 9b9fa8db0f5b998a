"""How much do order and random access cost?

    python benchmarks/index.py [--small]

Prints one JSON object. CPU seconds of this process, best of five interleaved rounds; memory as the growth of the peak.
"""

import argparse
import json
import os
import random
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from webdataset import index, tar
from webdataset.shards import Order, shuffle_report


def write_shard(path, samples, fields):
    rng = random.Random(0)
    with open(path, "wb") as file:
        for number in range(samples):
            for field, size in fields:
                file.write(tar.encode_header(f"{number:08d}.{field}", size) + rng.randbytes(size) + tar.padding(size))
        file.write(tar.END_OF_ARCHIVE)
    return str(path)


def read_raw(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def best(actions, rounds=5):
    """The least CPU seconds of each action, all of them once per round."""
    seconds = dict.fromkeys(actions, float("inf"))
    for _ in range(rounds):
        for name, action in actions.items():
            start = time.process_time()
            action()
            seconds[name] = min(seconds[name], time.process_time() - start)
    return seconds


def order_claims(shards):
    counts = np.random.default_rng(0).integers(9_000, 11_000, shards)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    order = Order(counts, seed=1, epoch=1, window=32)
    order.at(len(order) - 1)
    seconds = time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
    somewhere = np.random.default_rng(1).integers(0, len(order), 100_000)
    located = best({"near": lambda: order.locate(np.arange(100_000)), "far": lambda: order.locate(somewhere)})
    report = shuffle_report(Order([1000] * 100, window=32))
    return {
        "samples": len(order), "shards": shards, "start_s": seconds, "start_MB": grown,
        "positions_per_s_near": 100_000 / located["near"], "positions_per_s_far": 100_000 / located["far"],
        "same_shard_window_32": report.ordered.same_shard, "same_shard_buffer_1000": report.buffered.same_shard,
    }  # fmt: skip


def access_claims(folder, samples):
    small = write_shard(folder / "small.tar", samples, (("json", 300), ("npy", 700)))
    large = write_shard(folder / "large.tar", samples // 20, (("jpg", 100_000), ("json", 5_000)))
    numbers = np.random.default_rng(2).integers(0, samples, 5_000).tolist()
    with index.IndexedDataset([small]) as dataset:
        dataset[0]
        seconds = best({
            "raw small": lambda: read_raw(small), "index small": lambda: index.build_index(small),
            "raw large": lambda: read_raw(large), "index large": lambda: index.build_index(large),
            "random access": lambda: [dataset[number] for number in numbers],
        })  # fmt: skip
    sizes = {path: os.path.getsize(path) / 1e6 for path in (small, large)}
    wanted = [extent for row in index.build_index(large).rows() for extent in row if extent.field == "json"]
    spans = index.coalesce([index.Range(extent.offset - 512, extent.size + 512) for extent in wanted])
    return {
        "index_MB_per_s_1kB_samples": sizes[small] / seconds["index small"],
        "index_MB_per_s_100kB_samples": sizes[large] / seconds["index large"],
        "raw_MB_per_s": sizes[large] / seconds["raw large"],
        "random_access_us": seconds["random access"] / len(numbers) * 1e6,
        "projection_bytes_ratio": sum(span.length for span in spans) / 1e6 / sizes[large],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="only to see that it runs")
    small = parser.parse_args().small
    with tempfile.TemporaryDirectory() as folder:
        result = {**order_claims(1_000 if small else 100_000), **access_claims(Path(folder), 400 if small else 40_000)}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
