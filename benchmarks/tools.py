"""How fast are the verbs of `wds`, beside `cp`, GNU tar, the public library and Ray Data?

    python benchmarks/tools.py [--mb 1000] [--rounds 3] [start cat create recode plan ray]

* start: `import webdataset` beside the public library's, and a process that reads one local sample, beside Python and
  NumPy alone;
* cat: `wds cat` and `wds split`, 100 kB samples on local files, beside `cp` of the same bytes and `sync`;
* create: a folder of 20 kB files, beside GNU tar (`--sort=name`) and a loop over the public library's `TarWriter`;
* recode: 500 × 375 JPEGs to a shorter side of 256, one worker and two;
* plan: `map_shards` over 100,000 shards that are all finished;
* ray: 1 kB samples through an identity function, `map_shards` on Ray and Ray Data's `read_webdataset` →
  `write_webdataset` (which needs pandas), both with two processors.

Each measurement is a process of its own; the competitors take turns, and the best round counts. Prints a JSON object.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lab

WDS = [sys.executable, "-m", "webdataset"]


def timed(command, **options):
    """Wall and processor seconds of a command and its children.

    Modules are compiled once and kept, as those of an installed package are.
    """
    environment = {
        name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    }
    environment["PYTHONPYCACHEPREFIX"] = str(lab.DATA / "compiled")
    if options.pop("ours", True):
        environment["PYTHONPATH"] = os.pathsep.join([str(lab.ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, **options)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr[-2000:]}")
    return {
        "wall": wall,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "out": done.stdout,
    }


def best(rounds, **runs):
    """The competitors in turns; the best wall and the best processor time of each."""
    found = {name: {"wall": float("inf"), "cpu": float("inf")} for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            result = run()
            for key in ("wall", "cpu"):
                found[name][key] = round(min(found[name][key], result[key]), 3)
    return found


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


SAMPLE = "import sys, webdataset; next(iter(webdataset.WebDataset(sys.argv[1], shardshuffle=False)))"


def start(home, options):
    """Processes that end at once, in milliseconds."""
    (url,) = write_shards(home / "one", 1, 10, 1000)
    programs = {"python": "pass", "numpy": "import numpy", "import": "import webdataset", "first sample": SAMPLE}

    def run(program, python=sys.executable):
        return timed([python, "-c", program, url], ours=python == sys.executable)

    runs = {name: lambda program=program: run(program) for name, program in programs.items()}
    try:
        public = lab.python_of("webdataset")
        runs["public import"] = lambda: run("import webdataset", public)
    except lab.Skip as reason:
        print(f"# the public library is left out: {reason}", file=sys.stderr)
    found = best(options.rounds, **runs)
    result = {name: round(1000 * each["wall"]) for name, each in found.items()}
    result["import alone"] = result["import"] - result["python"]
    if "public import" in result:
        result["public/ours"] = round((result["public import"] - result["python"]) / result["import alone"], 1)
    return result


def write_shards(folder, shards, each, size):
    import webdataset as wds

    fresh(folder)
    data = os.urandom(size)
    for shard in range(shards):
        with wds.TarWriter(str(folder / f"{shard:04d}.tar")) as sink:
            for number in range(each):
                sink.write({"__key__": f"{shard:04d}{number:06d}", "bin": data})
    return sorted(str(path) for path in folder.glob("*.tar"))


def transfer(home, options):
    """cat and split beside cp."""
    shards = write_shards(home / "in", 10, options.mb, 100_000)  # 10 × mb × 100 kB = mb MB
    total = sum(os.path.getsize(url) for url in shards)
    out = home / "out"

    def cp():
        return timed(["bash", "-c", f"cat {home}/in/*.tar > {fresh(out)}/a.tar && sync {out}/a.tar"])

    def cat():
        return timed([*WDS, "cat", *shards, "-o", f"{fresh(out)}/a.tar"])

    def split():
        return timed([*WDS, "split", "-n", "1000", *shards, "-o", f"{fresh(out)}/a-%04d.tar"])

    def help():
        return timed([*WDS, "cat", "--help"])

    found = best(options.rounds, cp=cp, cat=cat, split=split, help=help)
    for one in found.values():
        one["GB/s"] = round(total / 1e9 / one["wall"], 2)
    return {**found, "cat/cp": ratio(found, "cp", "cat"), "split/cp": ratio(found, "cp", "split")}


def ratio(found, one, other, key="wall"):
    return round(found[one][key] / found[other][key], 2)


PUBLIC = """
import sys, os
import webdataset as wds
folder, output = sys.argv[1:]
with wds.TarWriter(output) as sink:
    for root, _, names in sorted(os.walk(folder)):
        samples = {}
        for name in sorted(names):
            key, _, field = name.partition(".")
            samples.setdefault(key, {})[field] = os.path.join(root, name)
        for key, fields in samples.items():
            sample = {"__key__": os.path.relpath(os.path.join(root, key), folder)}
            for field, path in fields.items():
                with open(path, "rb") as stream:
                    sample[field] = stream.read()
            sink.write(sample)
"""


def create(home, options):
    """create beside GNU tar and the public TarWriter."""
    folder, out = fresh(home / "files"), home / "out"
    data = os.urandom(20_000)
    for number in range(options.mb * 20):
        place = folder / f"{number // 1000:03d}"
        if number % 1000 == 0:
            place.mkdir()
        (place / f"{number:06d}.jpg").write_bytes(data)
        (place / f"{number:06d}.cls").write_bytes(b"%d" % (number % 1000))

    def ours():
        return timed([*WDS, "create", str(folder), "-o", f"{fresh(out)}/a.tar"])

    def gnu_tar():
        return timed(["tar", "--sort=name", "-cf", f"{fresh(out)}/a.tar", "-C", str(folder), "."])

    def gnu_tar_and_sync():
        return timed(["bash", "-c", f"tar --sort=name -cf {fresh(out)}/a.tar -C {folder} . && sync {out}/a.tar"])

    runs = {"ours": ours, "tar": gnu_tar, "tar+sync": gnu_tar_and_sync}
    try:
        python = lab.python_of("webdataset")
        runs["public"] = lambda: timed([python, "-c", PUBLIC, str(folder), f"{fresh(out)}/a.tar"], ours=False)
    except lab.Skip as reason:
        print(f"# the public library is left out: {reason}", file=sys.stderr)
    found = best(options.rounds, **runs)
    result = {**found, "ours/tar": ratio(found, "ours", "tar"), "ours/(tar+sync)": ratio(found, "ours", "tar+sync")}
    if "public" in found:
        result |= {"public/ours": ratio(found, "public", "ours")}
    return result


def recode(home, options):
    """recode with one worker and with two."""
    import numpy as np

    import webdataset as wds
    from webdataset.codecs import encode_field

    folder, out = fresh(home / "images"), home / "out"
    rows, columns = np.mgrid[0:375, 0:500]
    photo = np.stack([rows * 255 // 375, columns * 255 // 500, (rows ^ columns) % 256], -1).astype("u1")
    photo = encode_field("jpg", photo, quality=90)
    shards = [str(folder / f"{number:02d}.tar") for number in range(8)]
    for number, url in enumerate(shards):
        with wds.TarWriter(url) as sink:
            for each in range(options.mb // 2):
                sink.write({"__key__": f"{number}-{each:06d}", "jpg": photo})

    def run(jobs):
        command = [
            *WDS,
            "recode",
            "--short",
            "256",
            "--quality",
            "90",
            "-j",
            str(jobs),
            *shards,
            "-o",
            f"{fresh(out)}/",
        ]
        return timed(command)

    found = best(options.rounds, one=lambda: run(1), two=lambda: run(2))
    return {**found, "speed-up": ratio(found, "one", "two")}


PLAN = """
import json, sys, time
from webdataset.tools import map_shards
folder, count = sys.argv[1], int(sys.argv[2])
inputs = [f"{folder}/in/{n:06d}.tar" for n in range(count)]
start = time.perf_counter()
report = map_shards(iter, inputs, f"{folder}/out/", job="plan", index=False)
assert report.skipped == count, report
print(time.perf_counter() - start)
"""


def plan(home, options):
    """map_shards over finished shards: empty files and a ledger that says so."""
    from webdataset.flow import digest
    from webdataset.tools import version_of

    count, folder = 100 if lab.SMALL else 100_000, fresh(home / "plan")
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    lines = [json.dumps({"ledger": "webdataset-ledger-1", "job": "plan"})]
    for number in range(count):
        names = [str(folder / part / f"{number:06d}.tar") for part in ("in", "out")]
        for name in names:
            Path(name).touch()
        lines.append(json.dumps([*names, 1000, 1000, 10**6, 0, "0" * 32, version_of(names[0]), []]))
    ledger = folder / "out" / f".wds-{digest(f'{folder}/out/'):016x}.jsonl"
    ledger.write_text("\n".join(lines) + "\n")
    runs = [float(timed([sys.executable, "-c", PLAN, str(folder), str(count)])["out"]) for _ in range(options.rounds)]
    return {f"seconds for {count:,} finished shards": round(min(runs), 2)}


RAY = """
import sys, os, time, logging
import ray
kind, folder, output = sys.argv[1:]
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)

@ray.remote
def warm():
    import numpy, webdataset.tools
ray.get([warm.remote() for _ in range(2)])
inputs = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".tar"))
start = time.perf_counter()
if kind == "ours":
    from webdataset.tools import map_shards
    report = map_shards(iter, inputs, output + "/", executor="ray", job="identity", index=False)
    count = report.samples_out
else:
    ray.data.DataContext.get_current().enable_progress_bars = False
    data = ray.data.read_webdataset(inputs, decoder=None)
    data.write_webdataset(output, encoder=None)
    count = None
print(time.perf_counter() - start)
"""


def ray(home, options):
    """map_shards on Ray beside Ray Data."""
    samples = options.mb * 20
    shards = write_shards(home / "small", 8, samples // 8, 1000)
    out = home / "out"

    def run(kind):
        result = timed([sys.executable, "-c", RAY, kind, str(home / "small"), str(fresh(out))])
        return {"wall": float(result["out"].split()[-1]), "cpu": result["cpu"]}

    found = best(options.rounds, ours=lambda: run("ours"), ray_data=lambda: run("ray"))
    for one in found.values():
        one["samples/s"] = round(samples / one["wall"])
    return {**found, "ours/ray data": ratio(found, "ray_data", "ours"), "shards": len(shards)}


ROWS = {"start": start, "cat": transfer, "create": create, "recode": recode, "plan": plan, "ray": ray}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--mb", type=int, default=2 if lab.SMALL else 1000, help="how much data, about")
    parser.add_argument("--rounds", type=int, default=lab.ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wds-tools-", dir=os.environ.get("BENCH_DIR")) as home:
        found = {}
        for row in options.rows:
            found[row] = ROWS[row](Path(home), options)
            print(f"# {row}: {json.dumps(found[row])}", file=sys.stderr)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
