"""How much do indexes, order and random access cost?

    python benchmarks/index.py

Prints one JSON object. CPU seconds of this process, best of five interleaved rounds; memory as the growth of the peak.
"""

import argparse
import json
import os
import random
import resource
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lab
import numpy as np

from webdataset import WebDataset, index, tar
from webdataset.samples import ReadSamples
from webdataset.order import Order
from webdataset.plan import shuffle_report
from webdataset.testing import FaultServer
from webdataset.writers import TarWriter


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


def best(actions, rounds=5, clock=time.process_time):
    """The least seconds of each action, all of them once per round."""
    seconds = dict.fromkeys(actions, float("inf"))
    for _ in range(rounds):
        for name, action in actions.items():
            start = clock()
            action()
            seconds[name] = min(seconds[name], clock() - start)
    return seconds


def order_claims(shards):
    counts = np.random.default_rng(0).integers(9_000, 11_000, shards)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    order = Order(counts, seed=1, epoch=1, window=32)
    order.locate([len(order) - 1])
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
    with index.IndexedShards([small]) as dataset:
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


def index_claims(folder, samples):
    """µs of CPU per member: built, written as text, learned while streaming, written with the shard."""
    result = {}
    for name, count, fields in (
        ("1kB", samples, (("json", 300), ("npy", 700))),
        ("100kB", samples // 20, (("jpg", 100_000), ("json", 5_000))),
    ):
        path = write_shard(folder / f"{name}.tar", count, fields)
        built = index.build_index(path)
        members, text = count * len(fields), index.write_dali(built)
        seconds = best({
            "raw": lambda: read_raw(path), "build": lambda: index.build_index(path),
            "text": lambda: index.write_dali(built), "load": lambda: index.read_dali(text), "stream": lambda: stream(path),
            "stream_and_learn": lambda: (Path(index.index_url(path)).unlink(missing_ok=True), stream(path, store_index=True)),
            "stream_known": lambda: stream(path, store_index=True),
        })  # fmt: skip
        result |= {f"{name}_{action}_us_per_member": value / members * 1e6 for action, value in seconds.items()}
        result[f"{name}_build_share_of_raw"] = seconds["raw"] / seconds["build"]
        result[f"{name}_build_and_text_share_of_raw"] = seconds["raw"] / (seconds["build"] + seconds["text"])
        result |= {f"{name}_side_by_side_{key}": value for key, value in side_by_side(folder, path).items()}
        result[f"{name}_text_bytes_per_member"] = len(index.write_dali(built)) / members
    rows = [{"__key__": f"{number:08d}", "json": bytes(300), "npy": bytes(700)} for number in range(samples // 2)]
    seconds = best({kind: lambda kind=kind: write_rows(folder, rows, kind == "index") for kind in ("plain", "index")})
    return result | {f"write_{kind}_us_per_member": value / len(rows) / 2 * 1e6 for kind, value in seconds.items()}


def side_by_side(folder, path, shards=4):
    """Wall seconds of four shards: read and built, one after the other and by two threads."""
    paths = [str(folder / f"copy-{number}.tar") for number in range(shards)]
    for copy in paths:
        shutil.copyfile(path, copy)
    with ThreadPoolExecutor(2) as pool:
        seconds = best({
            "raw": lambda: list(map(read_raw, paths)), "raw_2": lambda: list(pool.map(read_raw, paths)),
            "build": lambda: list(map(index.build_index, paths)),
            "build_2": lambda: list(pool.map(index.build_index, paths)),
        }, clock=time.perf_counter)  # fmt: skip
    return {
        "share_of_raw_1_thread": seconds["raw"] / seconds["build"],
        "share_of_raw_2_threads": seconds["raw_2"] / seconds["build_2"],
        "gain_of_2_threads": seconds["build"] / seconds["build_2"],
    }


def cache_claims(folder, samples, shards=4):
    """Samples per second over HTTP with 20 ms before each answer: streamed or indexed, without and with a cache.

    The first epoch fills the cache, the second reads from it. The stream has a buffer, the index a global order.
    """
    folder.mkdir()
    with FaultServer(latency=0.02) as server:
        urls = []
        for number in range(shards):
            path = write_shard(folder / f"part-{number}.tar", samples, (("jpg", 20_000), ("json", 300)))
            index.save_index(index.build_index(path), path)
            urls.append(server.add(f"part-{number}.tar", Path(path).read_bytes()))
            server.add(f"part-{number}.idx", Path(index.index_url(path)).read_bytes())
        result = {}
        for name, options in (("stream", {"index": False}), ("index", {"index": True})):
            for cached in ("", "_cache"):
                (copies := folder / f"{name}{cached}").mkdir()
                dataset = WebDataset(urls, shardshuffle=True, **options, **({"cache_dir": copies} if cached else {}))
                with dataset, dataset.shuffle(shards * samples) as shuffled:
                    for epoch in (1, 2):
                        start = time.perf_counter()
                        count = sum(1 for _ in shuffled)
                        result[f"http_{name}{cached}_epoch_{epoch}_samples_per_s"] = count / (
                            time.perf_counter() - start
                        )
    return result


def stream(path, store_index=False):
    return sum(1 for _ in ReadSamples(store_index=index.StoreIndexes() if store_index else None)([{"url": path}]))


def write_rows(folder, rows, indexed):
    with TarWriter(folder / "written.tar", encoder=False, index=indexed) as sink:
        for row in rows:
            sink.write(row)


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        samples = 400 if lab.SMALL else 40_000
        result = {
            **order_claims(1_000 if lab.SMALL else 100_000),
            **access_claims(Path(folder), samples),
            **index_claims(Path(folder), samples),
            **cache_claims(Path(folder) / "cache", max(2, samples // 400)),
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
