"""Is this library faster than it was at an older commit?

    python benchmarks/before.py COMMIT [--rounds 3] [--rows tokens plain "photo bytes, gzip" …]

Checks the commit out into a worktree of its own, which is removed at the end. Every row (without --rows: those of
`make bench`) is then done by the sources of the commit and by those of today in turns, each in a fresh process with the
packages of this interpreter. The best round counts, number by number. Prints a table: samples a second (µs of processor time per sample) of both, and the ratios.
"""

import argparse
import contextlib
import shutil
import subprocess
import sys

import bench
import data
import lab


def git(*words):
    done = subprocess.run(["git", "-C", lab.ROOT, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextlib.contextmanager
def checked_out(commit):
    folder = lab.DATA / "commits" / git("rev-parse", "--verify", f"{commit}^{{commit}}")
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    git("worktree", "add", "--force", "--detach", str(folder), commit)
    try:
        yield folder / "src"
    finally:
        git("worktree", "remove", "--force", str(folder))


def compare(rows, rounds, sources):
    """{(row, label): {when: numbers or {"skipped": reason}}}"""
    everyone = [(row, label) for row, _, label in lab.contenders(rows, [lab.OURS]) if label.startswith(lab.OURS)]
    found = {one: {when: {} for when in sources} for one in everyone}
    for row, label in everyone:
        lab.prepare(row, lab.OURS, label, {})
    for number in range(rounds):
        for row, label in everyone:
            lab.warm(row, lab.OURS)
            for when, source in sources.items():
                if "skipped" not in found[row, label][when]:
                    found[row, label][when] = again(found[row, label][when], row, label, source)
                brief = lab.brief(found[row, label][when])
                print(f"# round {number + 1}: {row}: {label}, {when}: {brief}", file=sys.stderr)
    return found


def again(last, row, label, source):
    try:
        return lab.better(last, lab.measure(lab.OURS, row, label, source=source))
    except lab.Skip as reason:
        return {"skipped": str(reason)}


def table(found):
    yield "| | before | now | rate, now / before | processor time, before / now |"
    yield "|---|---:|---:|---:|---:|"
    for (row, label), by_time in found.items():
        before, now = by_time["before"], by_time["now"]
        ratios = " | "
        if "skipped" not in before | now:
            ratios = f"{now['per_second'] / before['per_second']:.2f} | {before['cpu_us'] / now['cpu_us']:.2f}"
        name = row + label.removeprefix(lab.OURS)
        yield f"| {name} | {shown(before)} | {shown(now)} | {ratios} |"


def shown(each):
    return each.get("skipped") or f"{each['per_second']:,.0f}/s ({each['cpu_us']:,.4g} µs)"


def main():
    rows = [row for row in data.KIND if row != "limits"]
    usual = [row for row in bench.ROWS if row in rows]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=lab.ROUNDS)
    parser.add_argument("--rows", nargs="*", default=usual, choices=rows)
    options = parser.parse_args()
    with checked_out(options.commit) as source:
        found = compare(options.rows, options.rounds, {"before": source, "now": lab.ROOT / "src"})
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
