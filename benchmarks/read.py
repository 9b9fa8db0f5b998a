"""How fast shards are read, ours against the public library, in one run.

    python benchmarks/read.py --public-python ../venv-public/bin/python

The data (about 1.7 GB) is made once, in bench-data/. Every measurement runs in a process of its own; the two libraries
take turns, and the best of the rounds counts, so that a busy machine disturbs both alike. Without --public-python only
ours is measured. Prints one JSON object, then a table.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARDS = {"small": (8, 37_500), "jpeg": (4, 1_000), "blob": (2, 64)}


def members(kind, first, count):
    """The files of a shard: (name, payload)."""
    import numpy as np

    rng = np.random.default_rng(first)
    if kind == "jpeg":
        pictures = [jpeg(rng) for _ in range(32)]
    for number in range(first, first + count):
        if kind == "small":
            text = {"id": number, "label": number % 1000, "caption": "a caption of some words " * 6}
            yield f"{number:08d}.json", json.dumps(text).encode()
            array = io.BytesIO()
            np.save(array, rng.random(96))
            yield f"{number:08d}.npy", array.getvalue()
        elif kind == "jpeg":
            yield f"{number:08d}.jpg", pictures[number % 32]
        else:
            yield f"{number:08d}.bin", rng.bytes(4_000_000)


def jpeg(rng):
    """A noisy picture of about 100 kB."""
    from PIL import Image

    encoded = io.BytesIO()
    side = int(rng.integers(360, 430))
    Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype="uint8")).save(encoded, "JPEG", quality=75)
    return encoded.getvalue()


def generate(folder):
    for kind, (shards, count) in SHARDS.items():
        for shard in range(shards):
            path = folder / f"{kind}-{shard:02d}.tar"
            if path.exists():
                continue
            folder.mkdir(exist_ok=True)
            with tarfile.open(path.with_suffix(".part"), "w", format=tarfile.USTAR_FORMAT) as tar:
                for name, payload in members(kind, shard * count, count):
                    info = tarfile.TarInfo(name)
                    info.size = len(payload)
                    tar.addfile(info, io.BytesIO(payload))
            path.with_suffix(".part").rename(path)


# What runs in a process of its own.


def clock():
    """Seconds on the wall, or with --cpu those this process used: on a busy machine the fairer measure."""
    return time.process_time() if os.environ.get("BENCH_CPU") else time.perf_counter()


def urls(folder, kind):
    return [str(folder / f"{kind}-{shard:02d}.tar") for shard in range(SHARDS[kind][0])]


def dataset(shards):
    import webdataset as wds

    if hasattr(wds, "WebDataset"):
        return wds.WebDataset(shards, shardshuffle=False)
    from webdataset.samples import ReadSamples

    return ReadSamples()({"url": url} for url in shards)


def read(folder, kind):
    """Samples as bytes."""
    next(iter(dataset(urls(folder, kind))))  # what is imported on first use is not what is measured
    start, count = clock(), 0
    for _ in dataset(urls(folder, kind)):
        count += 1
    seconds = clock() - start
    assert count == SHARDS[kind][0] * SHARDS[kind][1], count
    return {"per_second": count / seconds, "MB_per_second": disk(folder, kind) / seconds / 1e6}


def disk(folder, kind):
    return sum(os.path.getsize(url) for url in urls(folder, kind))


def page_cache(folder, kind):
    """The same files, read into one buffer: as fast as this machine can."""
    buffer, start = bytearray(1 << 20), clock()
    for url in urls(folder, kind):
        with open(url, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return {"MB_per_second": disk(folder, kind) / (clock() - start) / 1e6}


def decoded(folder, kind):
    """json and npy decoded, batches of 256."""
    import webdataset as wds

    if not hasattr(wds, "WebDataset"):
        return None
    stream = wds.WebDataset(urls(folder, kind), shardshuffle=False).decode().to_tuple("json", "npy").batched(256)
    start, count = clock(), 0
    for numbers, arrays in stream:
        count += len(numbers)
    assert count == SHARDS[kind][0] * SHARDS[kind][1], count
    return {"per_second": count / (clock() - start)}


def import_time(folder, kind):
    start = clock()
    import webdataset  # noqa: F401

    return {"milliseconds": (clock() - start) * 1e3}


def first_sample(folder, kind):
    """From the start of the process (told by the parent) to the first sample of a local shard."""
    next(iter(dataset(urls(folder, kind))))
    seconds = clock() if os.environ.get("BENCH_CPU") else time.time() - float(os.environ["BENCH_STARTED"])
    return {"milliseconds": seconds * 1e3}


MEASURES = {
    "small, bytes": (read, "small"),
    "small, json + npy decoded, batches of 256": (decoded, "small"),
    "100 kB JPEGs, bytes": (read, "jpeg"),
    "4 MB blobs, bytes": (read, "blob"),
    "import": (import_time, "small"),
    "process start to first sample": (first_sample, "small"),
}
CEILINGS = {"page cache, 100 kB JPEGs": (page_cache, "jpeg"), "page cache, 4 MB blobs": (page_cache, "blob")}


# The parent.


def measure(python, name, folder, ours):
    environment = {**os.environ, "BENCH_STARTED": str(time.time())}
    environment.pop("PYTHONPATH", None)
    if ours:
        environment["PYTHONPATH"] = str(ROOT / "src")
    command = [python, __file__, "--data", str(folder), "--measure", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed with {python}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def better(old, new):
    if old is None or new is None:
        return old or new
    return {key: (min if key == "milliseconds" else max)(value, new[key]) for key, value in old.items()}


def run(folder, public, rounds, only):
    results = {}
    for _ in range(rounds):
        for name in [name for name in (*MEASURES, *CEILINGS) if only in name]:
            for who, python in (("ours", sys.executable), ("public", public)):
                if python and not (name in CEILINGS and who == "public"):
                    found = results.setdefault(name, {})
                    found[who] = better(found.get(who), measure(python, name, folder, who == "ours"))
    return results


def table(results):
    lines = [f"{'':44}{'ours':>14}{'public':>14}{'ratio':>8}"]
    for name, found in results.items():
        ours, public = found.get("ours"), found.get("public")
        unit = next((unit for unit in ("per_second", "milliseconds", "MB_per_second") if ours and unit in ours), None)
        if unit is None:
            lines.append(f"{name:44}{'-':>14}")
            continue
        ratio = "" if not public else ours[unit] / public[unit] if unit != "milliseconds" else public[unit] / ours[unit]
        label = {"per_second": "/s", "milliseconds": " ms", "MB_per_second": " MB/s"}[unit]
        shown = [f"{side[unit]:,.0f}{label}" if side else "" for side in (ours, public)]
        lines.append(f"{name:44}{shown[0]:>14}{shown[1]:>14}{ratio if not ratio else f'{ratio:.1f}x':>8}")
    for kind in ("100 kB JPEGs", "4 MB blobs"):
        read_at, ceiling = results.get(f"{kind}, bytes"), results.get(f"page cache, {kind}")
        if read_at and ceiling:
            share = read_at["ours"]["MB_per_second"] / ceiling["ours"]["MB_per_second"]
            lines.append(f"{kind + ', share of the page cache':44}{share:>14.0%}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT / "bench-data")
    parser.add_argument("--public-python", help="the interpreter of an environment with the public library")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="measure only what has this in its name")
    parser.add_argument("--cpu", action="store_true", help="measure processor time instead of time on the wall")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        function, kind = (MEASURES | CEILINGS)[options.measure]
        print(json.dumps(function(options.data, kind)))
        return
    if options.cpu:
        os.environ["BENCH_CPU"] = "1"
    generate(options.data)
    results = run(options.data, options.public_python, options.rounds, options.only)
    print(json.dumps(results))
    print(table(results))


if __name__ == "__main__":
    main()
