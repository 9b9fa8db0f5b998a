"""What the questions of this folder share: environments, fresh processes, rounds in turns, the table.

A question names rows (kinds of work). A peer (`peers/NAME.py`) says how it does a row: `ROWS[row][label]` is a function
of the data folder that yields batches. Every measurement is a process of its own, in the peer's own environment
(`peers/NAME.txt`, made on demand under bench-data/envs); the peers take turns, round after round, and the best round
counts, so that a busy machine disturbs all alike. `child.py` is what runs there.
"""

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# A folder: little data there, one round, ours alone. It shows that a benchmark runs, and nothing else.
SMALL = os.environ.get("BENCH_SMALL")
DATA = Path(SMALL) if SMALL else ROOT / "bench-data"
ROUNDS = 1 if SMALL else 3
OURS = "ours"
PEERS = (
    OURS,
    "webdataset",
    "imagefolder",
    "streaming",
    "litdata",
    "spdl",
    "dali",
    "ffcv",
    "tfdata",
    "grain",
    "turboloader",
)
PATIENCE = 300  # seconds a measurement may take


class Skip(Exception):
    """A peer cannot take part; the reason goes into the table."""


# Environments.


def python_of(peer):
    """The interpreter of a peer's environment, made on demand; ours is the one that runs this."""
    if peer == OURS:
        return sys.executable
    if SMALL:
        raise Skip("left out of a small run")
    folder = DATA / "envs" / peer
    wanted = (HERE / "peers" / f"{peer}.txt").read_text()
    done, failed = folder / "installed.txt", folder / "failed.txt"
    if failed.exists() and failed.read_text().startswith(wanted):
        raise Skip(failed.read_text()[len(wanted) :].strip())
    if not done.exists() or done.read_text() != wanted:
        install(folder, wanted, failed)
        done.write_text(wanted)
    return str(folder / "bin" / "python")


def install(folder, wanted, failed):
    """Every block of a requirements file is one `pip install`; a line `--no-deps` at its head is passed on."""
    print(f"# installing {folder.name}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    for block in wanted.split("\n\n"):
        words = [word for line in block.splitlines() if not line.startswith("#") for word in line.split()]
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *words]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            lines = re.findall(r"\w*Error: .*|ERROR: .*", result.stdout + result.stderr) or ["pip failed"]
            reason = f"does not install: {lines[0].strip():.120}"
            failed.write_text(wanted + reason)
            raise Skip(reason)


def load(peer):
    """The module that says how a peer does its rows; it imports the peer's package inside functions only."""
    spec = importlib.util.spec_from_file_location(f"peer_{peer}", HERE / "peers" / f"{peer}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# One measurement.


def measure(peer, row, label, prepare=False, source=ROOT / "src"):
    """Run one contender in a fresh process: what it printed, and the most memory it and its children held."""
    apart = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    environment = {name: value for name, value in os.environ.items() if name not in apart}
    if peer == OURS:  # not installed, as the peers are, but compiled beforehand as they are
        environment |= {"PYTHONPATH": str(source), "PYTHONPYCACHEPREFIX": str(DATA / "compiled")}
    environment |= {"BENCH_STARTED": str(time.time()), "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    command = [python_of(peer), str(HERE / "child.py"), peer, row, label, str(DATA), *(["prepare"] if prepare else [])]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    peak, stop = [0], threading.Event()
    watcher = threading.Thread(target=watch, args=(process.pid, peak, stop))
    watcher.start()
    try:
        output, errors = process.communicate(timeout=PATIENCE if not prepare else None)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        raise Skip(f"took more than {PATIENCE} s") from None
    finally:
        stop.set()
        watcher.join()
    if process.returncode:
        last = [line for line in errors.splitlines() if line.strip()] or ["no message"]
        raise Skip(f"fails: {last[-1].strip():.160}")
    return json.loads(output.splitlines()[-1]) | {"peak_MB": peak[0] / 1e6}


def watch(pid, peak, stop):
    """The most memory of a process and its children: anonymous and shared, each page once; the page cache is not theirs."""
    while not stop.wait(0.2):
        peak[0] = max(peak[0], sum(memory(each) for each in family(pid)))


def family(pid):
    found = [pid]
    for each in found:
        try:
            for task in os.listdir(f"/proc/{each}/task"):
                found += map(int, Path(f"/proc/{each}/task/{task}/children").read_text().split())
        except OSError:
            continue
    return found


def memory(pid):
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Pss_Anon", "Pss_Shmem")))


# Rounds.

LESS_IS_BETTER = {"cpu_us", "first_ms", "peak_MB"}


def better(old, new):
    """The best of two rounds, number by number."""
    if not old:
        return new
    return {
        name: value
        if not isinstance(value, float) or isinstance(value, str)
        else (min if name in LESS_IS_BETTER else max)(value, old[name])
        for name, value in new.items()
    }


def contenders(rows, peers):
    for row in rows:
        for peer in peers:
            if (HERE / "peers" / f"{peer}.py").exists():
                for label in load(peer).ROWS.get(row, {}):
                    yield row, peer, label


def run(rows, peers=PEERS, rounds=ROUNDS):
    """{row: {label: numbers or {"skipped": reason}}}"""
    results = {row: {} for row in rows}
    everyone = list(contenders(rows, peers))
    for row, peer, label in everyone:
        prepare(row, peer, label, results[row])
    for number in range(rounds):
        for row, peer, label in everyone:
            found = results[row].get(label, {})
            if "skipped" in found:
                continue
            warm(row, peer)
            try:
                results[row][label] = better(found, measure(peer, row, label)) | {"peer": peer}
            except Skip as reason:
                results[row][label] = {"skipped": str(reason), "peer": peer}
            print(f"# round {number + 1}: {row}: {label}: {brief(results[row][label])}", file=sys.stderr)
    return results


def prepare(row, peer, label, found):
    """Bring the data into the peer's own format, once."""
    import data

    try:
        python_of(peer)
        data.generate(DATA, row)
        name = load(peer).PREPARED.get(row) if hasattr(load(peer), "PREPARED") else None
        if name and not (DATA / name).exists():
            measure(peer, row, label, prepare=True)
    except Skip as reason:
        found[label] = {"skipped": str(reason), "peer": peer}
        print(f"# {row}: {label}: {reason}", file=sys.stderr)


def warm(row, peer):
    """Bring into the page cache what a peer will read: whoever comes first must not pay for the disk."""
    import data

    own = DATA / getattr(load(peer), "PREPARED", {}).get(row, "nothing")
    files = [own] if own.is_file() else [path for path in own.rglob("*") if path.is_file()]
    for path in [*data.shards(DATA, data.KIND[row]), *files]:
        with open(path, "rb") as file:
            while file.read(1 << 20):
                pass


def brief(found):
    return found.get("skipped") or ", ".join(f"{k} {v:,.0f}" for k, v in found.items() if isinstance(v, float))


# What is printed.


def table(results):
    lines = []
    for row, found in results.items():
        if not found:
            continue
        base = next((each for label, each in found.items() if label.startswith(OURS) and "per_second" in each), None)
        lines += [f"\n{row}", f"  {'':58}{'samples/s':>11}{'µs CPU':>8}{'MB':>7}{'first ms':>9}{'ours is':>9}"]
        for label, each in sorted(found.items(), key=lambda one: -one[1].get("per_second", 0)):
            if "skipped" in each:
                lines.append(f"  {label:58}  skipped: {each['skipped']}")
                continue
            ratio = f"{base['per_second'] / each['per_second']:.2f}x" if base else ""
            numbers = f"{each['per_second']:>11,.0f}{each['cpu_us']:>8,.4g}{each['peak_MB']:>7,.0f}"
            lines.append(f"  {label:58}{numbers}{each['first_ms']:>9,.0f}{ratio:>9}")
    return "\n".join(lines)


def machine():
    model = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "processor": model[0] if model else platform.processor(),
        "cores": os.cpu_count(),
        "load_at_start": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }


def answer(question, rows):
    """The main function of a question: measure, print JSON, print the table."""
    parser = argparse.ArgumentParser(description=question, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    parser.add_argument("--rows", nargs="*", default=rows, choices=rows)
    options = parser.parse_args()
    results = {"machine": machine(), "rows": run(options.rows, options.peers, options.rounds)}
    print(json.dumps(results, ensure_ascii=False))
    print(table(results["rows"]))
