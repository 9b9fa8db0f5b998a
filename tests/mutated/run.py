"""Reads mutated files under limits: `run.py FIRST COUNT [NAME...]` does it for these seeds.

It prints the reader and the seed before each file. It ends with status 0, or dies, and what it printed last is what killed it.
"""

import faulthandler
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

LIMIT = 10_000_000
MEMORY = 1 << 31  # that may be asked for
FILLED = 150_000_000  # that may be used
CPU_SECONDS = 20
WALL_SECONDS = 120


def size_of(value, most=100_000):
    """How many bytes arrays, texts and bytes in a value have, about."""
    total, rest, seen = 0, [value], set()
    while rest and len(seen) < most:
        each = rest.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        total += getattr(each, "nbytes", 0) or 0
        if isinstance(each, str | bytes | bytearray):
            total += len(each)
        elif isinstance(each, dict):
            rest += [*each, *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            rest += each
    return total


def used_memory():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(first, count, names):
    from tests.mutated.mutations import mutated
    from tests.mutated.readers import READERS, add_fields
    from webdataset.errors import MissingDependency, WebDatasetError

    os.environ["WDS_DECOMPRESS_LIMIT"] = str(LIMIT)
    warnings.simplefilter("ignore")
    if not set(names) <= set(READERS) or not names:
        add_fields()
    chosen = names or list(READERS)
    folder = Path(tempfile.mkdtemp(prefix="mutated-"))
    sys.stderr = sys.stdout
    every = [data for name in chosen for data in READERS[name].files()]
    for name in chosen:  # what they import and keep is not counted
        for data in READERS[name].files():
            (folder / "good").mkdir()
            READERS[name].read(data, folder / "good", random.Random(0))
            shutil.rmtree(folder / "good", ignore_errors=True)
    used = used_memory()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    wrong, filled = 0, peak()
    for seed in range(first, first + count):
        for name in chosen:
            rng = random.Random(f"{seed} {name}")
            files = READERS[name].files()
            data = mutated(rng, rng.choice(files), files if rng.random() < 0.7 else every)
            print("reading", name, seed, flush=True)
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
            here = folder / "files"
            here.mkdir()
            try:
                found = READERS[name].read(data, here, rng)
                if (size := size_of(found)) > max(LIMIT * 1.2, 2000 * len(data)):
                    raise AssertionError(f"{size} bytes out of {len(data)}")
            except Exception as error:
                if isinstance(error, MissingDependency) or not isinstance(error, WebDatasetError):
                    wrong += 1
                    print("WRONG", name, seed, repr(error)[:300].replace("\n", " "))
                    traceback.print_exc()
            if (now := peak()) > filled + FILLED:
                wrong += 1
                print("WRONG", name, seed, f"memory: {now - filled:,} bytes")
                filled = now
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            shutil.rmtree(here, ignore_errors=True)
    print(f"finished {count * len(chosen)} files, {wrong} wrong, grown by {used_memory() - used:,} bytes")
    shutil.rmtree(folder, ignore_errors=True)
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]) else 0)
