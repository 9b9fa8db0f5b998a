"""What runs in a process of its own, in a peer's environment: `child.py PEER ROW LABEL DATA [prepare]`.

Standard library only, because it runs in everybody's environment. Prints one JSON object:

* per_second: samples a second from the end of the first batches (an eighth of all) to the last one
* cpu_us: processor time per sample in the same stretch, of this process and all its children
* first_ms: from the start of the process to the first batch
* batch: what the first batch looks like, so that the reader can see that all do the same work
"""

import json
import os
import sys
import time
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import lab

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds():
    """Processor time of this process, its children (in ticks of 10 ms), and those children that are gone."""
    ticks = 0
    for pid in lab.family(os.getpid()):
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, words[13 if pid == os.getpid() else 11 : 15]))
    return time.process_time() + ticks / TICK


def columns(batch):
    if isinstance(batch, dict):
        return list(batch.values())
    return list(batch) if isinstance(batch, (tuple, list)) else [batch]


def look(value):
    shape = getattr(value, "shape", None)
    if shape is None:
        return f"{type(value).__name__}[{len(value)}]" if hasattr(value, "__len__") else type(value).__name__
    return f"{type(value).__module__.split('.')[0]} {str(getattr(value, 'dtype', '')).split('.')[-1]} {list(shape)}"


def measure(batches, expected):
    batches = iter(batches)
    batch = next(batches)
    first, total = time.time(), len(columns(batch)[0])
    shown = ", ".join(map(look, columns(batch)))
    while total < expected / 8:
        total += len(columns(next(batches))[0])
    start, cpu, before = time.perf_counter(), cpu_seconds(), total
    for batch in batches:
        total += len(columns(batch)[0])
    seconds, cpu, count = time.perf_counter() - start, cpu_seconds() - cpu, total - before
    if not 0.9 * expected <= total <= expected:
        raise SystemExit(f"{total} samples came instead of {expected}")
    return {
        "per_second": count / seconds,
        "cpu_us": cpu / count * 1e6,
        "first_ms": (first - float(os.environ["BENCH_STARTED"])) * 1e3,
        "batch": shown,
    }


def versions(names):
    return {name: metadata.version(name) for name in names}


def main():
    peer, row, label, folder, *what = sys.argv[1:]
    module = lab.load(peer)
    if what == ["prepare"]:
        module.prepare(row, Path(folder))
        print("{}")
        return
    import data

    found = measure(module.ROWS[row][label](Path(folder)), data.count(row))
    print(json.dumps(found | {"versions": versions(module.VERSIONS)}))
    sys.stdout.flush()
    os._exit(0)  # how a peer ends its threads is not the question


if __name__ == "__main__":
    main()
