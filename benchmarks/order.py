"""What do an index, a global order and an exact resume cost?

Prints one JSON object. Times are best of five or more, taken in turns and in random order, so that a busy machine slows all
columns alike.

* sequential: µs per sample of 1 kB, the whole dataset once, with the index beside the shards and without; of the
  processor and by the clock, which differ where a reader has threads
* shuffled: the same in a global random order
* look-up: µs for `IndexedDataset[i]`, samples of 1 kB, local
* resume: bytes over HTTP that a resume at 90 % moves beyond the last tenth, as a share of the epoch
* projection: bytes that `fields=("json",)` moves over HTTP where a sample is 95 kB of jpg and 5 kB of json, as a share
* start: seconds and resident memory until the first position of 10⁵ shards with 10⁹ samples is known

    python benchmarks/order.py [--with PYTHON ...]

`--with` names interpreters that have NVIDIA DALI or SPDL; those become further columns of `sequential`.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import lab

import webdataset as wds
from webdataset import IndexedDataset
from webdataset.index import build_index, save_index
from webdataset.testing import LoopbackServer
from webdataset.testing._web_server import wanted_range

SHARDS, SAMPLES, ROUNDS = 4, 500 if lab.SMALL else 5000, 5
CLOCKS = {time.process_time: "processor", time.perf_counter: "wall"}


def write(folder, shards, samples, make):
    urls = []
    for shard in range(shards):
        url = str(folder / f"{shard:04d}.tar")
        with wds.TarWriter(url) as sink:
            for number in range(samples):
                sink.write({"__key__": f"{shard:04d}{number:06d}", **make(number)})
        save_index(build_index(url), url)
        urls.append(url)
    return urls


def small(number):
    return {"bin": bytes(1000), "cls": number}


def best_of(columns, rounds=ROUNDS, clock=time.perf_counter):
    """Seconds of each column, best of some rounds in turns."""
    best = {}
    for _ in range(rounds):
        for name, run in random.sample(list(columns.items()), len(columns)):  # who comes after whom matters
            start = clock()
            run()
            best[name] = min(best.get(name, float("inf")), clock() - start)
    return best


def exhaust(dataset):
    for _ in dataset:
        pass


def reading(urls, other):
    total = SHARDS * SAMPLES
    datasets = {
        "without index": wds.WebDataset(urls, index=False),
        "with index": wds.WebDataset(urls),
        "global shuffle": wds.WebDataset(urls, order="random"),
        "buffer shuffle": wds.WebDataset(urls, index=False, shardshuffle=True).shuffle(1000),
    }
    columns = {name: partial(exhaust, dataset) for name, dataset in datasets.items()}
    best = {}
    for _ in range(3):  # in turns with the others, which are processes of their own
        for clock, name, seconds in [*ours(columns), *others(urls, other)]:
            best[clock, name] = min(best.get((clock, name), float("inf")), seconds)
    result = {}
    for (clock, name), seconds in best.items():
        result.setdefault(clock, {})[name] = round(seconds / total * 1e6, 2)
    return result


def ours(columns):
    for clock in (time.process_time, time.perf_counter):
        for name, seconds in best_of(columns, clock=clock).items():
            yield CLOCKS[clock], name, seconds


OTHERS = """
import json, sys, time
urls = json.loads(sys.argv[1])

def dali():
    from nvidia.dali import fn, pipeline_def
    @pipeline_def(batch_size=256, num_threads=2, device_id=None)
    def pipe():
        return tuple(fn.readers.webdataset(paths=urls, index_paths=[u[:-3] + "idx" for u in urls], ext=["bin", "cls"]))
    built = pipe(); built.build()
    def run():
        for _ in range(TOTAL // 256):
            built.run()
    return run

def spdl():
    import spdl.io
    def run():
        for url in urls:
            data = open(url, "rb").read()
            for name, part in spdl.io.iter_tarfile(data):
                bytes(part)
    return run

TOTAL = int(sys.argv[2])
for name, make in (("DALI", dali), ("SPDL", spdl)):
    try:
        run = make()
    except ImportError:
        continue
    run()
    for clock in ("process_time", "perf_counter"):
        for _ in range(5):
            start = getattr(time, clock)(); run()
            print(json.dumps([clock, name, getattr(time, clock)() - start]))
"""


def others(urls, pythons):
    for python in pythons:
        done = subprocess.run(
            [python, "-c", OTHERS, json.dumps(urls), str(SHARDS * SAMPLES)], capture_output=True, text=True, check=True
        )
        for line in done.stdout.splitlines():
            clock, name, seconds = json.loads(line)
            yield CLOCKS[getattr(time, clock)], name, seconds


def lookups(urls):
    dataset = IndexedDataset(urls)
    numbers = [random.Random(1).randrange(len(dataset)) for _ in range(200 if lab.SMALL else 20_000)]

    def run():
        for number in numbers:
            dataset[number]

    run()
    seconds = best_of({"look-up": run})["look-up"]
    dataset.close()
    return round(seconds / len(numbers) * 1e6, 2)


def over_http(folder, read):
    """How many bytes of shards go over the wire while `read(base address)` runs."""
    sent = []

    def respond(handler):
        path = folder / handler.path.lstrip("/")
        if not path.is_file():
            handler.send_error(404)
            return
        size = path.stat().st_size
        span = wanted_range(handler, size)
        first, stop = span or (0, size)
        handler.send_response(206 if span else 200)
        handler.send_header("Content-Length", str(stop - first))
        handler.send_header("Accept-Ranges", "bytes")
        if span:
            handler.send_header("Content-Range", f"bytes {first}-{stop - 1}/{size}")
        handler.end_headers()
        if handler.command == "HEAD":
            return
        with path.open("rb") as file:
            file.seek(first)
            while first < stop:
                handler.wfile.write(part := file.read(min(1 << 14, stop - first)))
                first += len(part)
                if path.suffix == ".tar":
                    sent.append(len(part))

    with LoopbackServer(respond) as server:
        read(server.url("").rstrip("/"))
    return sum(sent)


def projection(folder):
    jpg, meta = os.urandom(95_000), b'{"caption": "' + b"x" * 4985 + b'"}'
    urls = write(folder, 2, 200, lambda _: {"jpg": jpg, "json": meta})
    total = sum(os.path.getsize(url) for url in urls)

    def read(base):
        names = [f"{base}/{os.path.basename(url)}" for url in urls]
        dataset = wds.WebDataset(names, index=True, fields=("json",)).batched(50, collation_fn=None)
        exhaust(dataset)

    return round(over_http(folder, read) / total, 4)


def resume(folder, urls):
    """What the last tenth of an epoch moves when it is resumed there, beyond a tenth, as a share of the epoch."""
    total = sum(os.path.getsize(url) for url in urls)
    result = {}
    for order in ("sequential", "random"):

        def read(base, order=order):
            names = [f"{base}/{os.path.basename(url)}" for url in urls]
            dataset = wds.WebDataset(names, index=True, order=order).batched(50, collation_fn=None)
            dataset.seek(len(dataset) * 9 // 10)
            assert sum(len(batch) for batch in dataset) == SHARDS * SAMPLES // 10
            dataset.close()

        result[order] = round(over_http(folder, read) / total - 0.1, 4)
    return result


START = """
import json, resource, sys, time
import webdataset as wds
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, cpu = time.perf_counter(), time.process_time()
dataset = wds.WebDataset(sys.argv[1], order="random", seed=1)
from webdataset.flow import Pass
order = dataset.plan.order(Pass(1))
order.locate([123_456_789])
print(json.dumps({"seconds": round(time.perf_counter() - start, 2), "CPU seconds": round(time.process_time() - cpu, 2), "length": len(dataset),
    "resident MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))
"""


def start(folder):
    shards = [{"url": f"{shard:06d}.tar", "nsamples": 10_000} for shard in range(100_000)]
    path = folder / "large.json"
    path.write_text(json.dumps({"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shards}))
    done = subprocess.run([sys.executable, "-c", START, str(path)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="other", nargs="*", default=[], help="interpreters with DALI or SPDL")
    other = parser.parse_args().other
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root) / name for name in ("small", "images")]
        for folder in folders:
            folder.mkdir()
        urls = write(folders[0], SHARDS, SAMPLES, small)
        result = {
            "µs per 1 kB sample": reading(urls, other),
            "µs per look-up": lookups(urls),
            "bytes read again after a resume at 90 %, share of the epoch (HTTP)": resume(folders[0], urls),
            "bytes moved for fields=('json',), share of the dataset (HTTP)": projection(folders[1]),
            "start with 100,000 shards, 1,000,000,000 samples": start(Path(root)),
        }
    print(json.dumps(result, ensure_ascii=False, indent=2))


if __name__ == "__main__":
    main()
