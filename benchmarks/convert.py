"""How fast is a conversion?

    python benchmarks/convert.py [--rounds 5] [--megabytes 200]

* tfrecord: TFRecord → tar, checksums checked, compared with a loop over the `tfrecord` package (which checks none) that
  writes with the public library's `TarWriter`. With images of 100 kB, 2 kB and 1 kB;
* parquet: parquet → tar with images of 100 kB, compared with pyarrow reading the same file and doing nothing.

The contenders run in turns, each in a fresh process, on files in memory (`/dev/shm` where there is one). Prints one JSON
object with CPU seconds, which a busy machine disturbs less; `ratio` is the median over the rounds of the other's time
by ours. `least_seconds` is what no conversion can save: reading the file, the CRC-32C of its bytes, and writing as many
bytes to a new file that replaces another; `best_ratio` is the other's time by that.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import lab

MAKE = """
import os, random, sys
from webdataset import interop
folder, size, total = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
blob = random.Random(0).randbytes(2 * size)
rows = ({"image/encoded": b"\\xff\\xd8\\xff" + blob[n % size : n % size + size], "image/class/label": n % 1000,
         "image/class/text": "class %d" % (n % 1000)} for n in range(total // size))
rows = list(rows) if size > 10000 else rows
count = interop.write(rows, folder + "/a.tfrecord")
if size > 10000:
    interop.write([{"jpg": r["image/encoded"], "cls": r["image/class/label"]} for r in rows], folder + "/a.parquet")
"""

OURS = """
import sys, time
from webdataset import interop
from webdataset.tools import Options
start = time.process_time()
done = interop.convert(sys.argv[1], sys.argv[2], Options(force=True, index=False), mapping=sys.argv[3])
print(time.process_time() - start, done.samples_out)
"""

LOOP = """
import sys, time
from tfrecord.reader import tfrecord_loader
from webdataset import TarWriter
start, count = time.process_time(), 0
description = {"image/encoded": "byte", "image/class/label": "int", "image/class/text": "byte"}
with TarWriter(sys.argv[2]) as sink:
    for count, row in enumerate(tfrecord_loader(sys.argv[1], None, description), 1):
        sink.write({"__key__": "%09d" % count, "jpg": bytes(row["image/encoded"]), "cls": int(row["image/class/label"][0]),
                    "txt": bytes(row["image/class/text"])})
print(time.process_time() - start, count)
"""

LEAST = """
import os, sys, time
import google_crc32c
start, count = time.process_time(), 0
with open(sys.argv[1], "rb", buffering=0) as source, open(sys.argv[2] + ".part", "wb", buffering=0) as sink:
    while piece := source.read(100_000):
        count += 1
        if sys.argv[3:]:
            google_crc32c.value(piece)
        sink.write(piece)
os.replace(sys.argv[2] + ".part", sys.argv[2])
print(time.process_time() - start, count)
"""

PYARROW = """
import sys, time
import pyarrow.parquet as pq
start, count = time.process_time(), 0
for batch in pq.ParquetFile(sys.argv[1]).iter_batches(64):
    count += batch.num_rows
print(time.process_time() - start, count)
"""

MAPPING = "image/encoded:jpg,image/class/label:cls,image/class/text:txt"


def run(python, program, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if python == sys.executable:
        environment["PYTHONPATH"] = str(lab.ROOT / "src")
    out = subprocess.run(
        [python, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    return [float(word) for word in out.stdout.split()]


def compare(rounds, ours, theirs, least):
    times = [(ours()[0], theirs()[0], least()[0]) for _ in range(rounds)]
    ratio = statistics.median(there / here for here, there, _ in times)
    seconds, other, floor = map(min, zip(*times, strict=True))
    return {
        "seconds": seconds,
        "other_seconds": other,
        "least_seconds": floor,
        "ratio": round(ratio, 2),
        "best_ratio": round(other / floor, 2),
    }


def tfrecord_row(folder, size, total, rounds):
    run(sys.executable, MAKE, folder, size, total)
    public = lab.python_of("tfrecord")
    return compare(
        rounds,
        lambda: run(sys.executable, OURS, f"{folder}/a.tfrecord", f"{folder}/ours.tar", MAPPING),
        lambda: run(public, LOOP, f"{folder}/a.tfrecord", f"{folder}/theirs.tar"),
        lambda: run(sys.executable, LEAST, f"{folder}/a.tfrecord", f"{folder}/least.tar", "checked"),
    )


def parquet_row(folder, total, rounds):
    run(sys.executable, MAKE, folder, 100_000, total)
    return compare(
        rounds,
        lambda: run(sys.executable, OURS, f"{folder}/a.parquet", f"{folder}/ours.tar", "jpg,cls"),
        lambda: run(sys.executable, PYARROW, f"{folder}/a.parquet"),
        lambda: run(sys.executable, LEAST, f"{folder}/a.parquet", f"{folder}/least.tar"),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1 if lab.SMALL else 5)
    parser.add_argument("--megabytes", type=int, default=1 if lab.SMALL else 200)
    options = parser.parse_args()
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    result = {}
    for name, size in (("tfrecord, 100 kB", 100_000), ("tfrecord, 2 kB", 2_000), ("tfrecord, 1 kB", 1_000)):
        with tempfile.TemporaryDirectory(prefix="convert-", dir=place) as folder:
            total = options.megabytes * 1_000_000 // (1 if size > 10_000 else 8)
            try:
                result[name] = tfrecord_row(folder, size, total, options.rounds)
            except lab.Skip as reason:
                result[name] = {"skipped": str(reason)}
    with tempfile.TemporaryDirectory(prefix="convert-", dir=place) as folder:
        result["parquet, 100 kB"] = parquet_row(folder, options.megabytes * 1_000_000, options.rounds)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
