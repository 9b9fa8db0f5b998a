"""How fast are small samples written, compared with the public library?

    python benchmarks/write.py [--samples 100000] [--rounds 3]

Both libraries run in turns, each in a fresh process, and write the same samples through `ShardWriter`:

* bytes:  json + npy, ready as bytes, about 0.7 kB in all;
* values: the same as a dict and an array, encoded by the writer.

Prints one JSON object; `ratio` is the median over the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import lab

CHILD = """
import io, json, os, sys, time
import numpy as np
from webdataset import ShardWriter

kind, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
array, about = np.arange(128, dtype="float32"), {"label": 3, "name": "x" * 60, "box": [1, 2, 3, 4]}
if kind == "bytes":
    stream = io.BytesIO()
    np.save(stream, array)
    array, about = stream.getvalue(), json.dumps(about).encode()
start, cpu = time.perf_counter(), time.process_time()
with ShardWriter(os.path.join(folder, "a-%04d.tar"), maxcount=count // 4, verbose=0) as sink:
    for number in range(count):
        sink.write({"__key__": f"{number:08d}", "json": about, "npy": array})
print(json.dumps({
    "samples_per_second": count / (time.perf_counter() - start),
    "cpu_us_per_sample": (time.process_time() - cpu) / count * 1e6,
    "bytes_on_disk": sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)),
}))
"""


def measure(python, kind, count):
    with tempfile.TemporaryDirectory(prefix="write-") as folder:
        command = [python, "-c", CHILD, kind, str(count), folder]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        if python == sys.executable:
            environment["PYTHONPATH"] = str(lab.ROOT / "src")
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        return json.loads(result.stdout.splitlines()[-1])


def compare(public, kind, count, rounds):
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(measure(sys.executable, kind, count))
        if public:
            theirs.append(measure(public, kind, count))
    result = {"ours": median(ours)}
    if public:
        rates = [a["samples_per_second"] / b["samples_per_second"] for a, b in zip(ours, theirs, strict=True)]
        result |= {"public": median(theirs), "ratio": round(statistics.median(rates), 1)}
    return result


def median(runs):
    return {name: round(statistics.median(run[name] for run in runs), 1) for name in runs[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100 if lab.SMALL else 100_000)
    parser.add_argument("--rounds", type=int, default=lab.ROUNDS)
    options = parser.parse_args()
    try:
        public = lab.python_of("webdataset")
    except lab.Skip as reason:
        print(f"# only ours: the public library {reason}", file=sys.stderr)
        public = None
    results = {kind: compare(public, kind, options.samples, options.rounds) for kind in ("bytes", "values")}
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
