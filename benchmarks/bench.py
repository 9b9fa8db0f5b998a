"""Who is how fast, at everything? Asks all questions that compare, writes bench-data/results.json and the picture.

    python benchmarks/bench.py [--rounds 3] [--rows antialiased plain …] [--again]

With --again nothing is measured: the tables and the picture are made from the last results.
"""

import argparse
import json

import lab

ROWS = ["limits", "antialiased", "plain", "float", "raw", "small", "tokens", "small bytes", "photo bytes", "blobs"]
TITLES = {
    "antialiased": "100 kB JPEG → random-resized crop 224,\nantialiased, flip → uint8 batch of 64",
    "plain": "the same, plain bilinear",
    "float": "the same, antialiased,\nnormalised floats",
    "raw": "raw 256 px → crop 224, flip\n→ batch of 64",
    "small": "1 kB json + npy, decoded,\nbatch of 256, one process",
    "tokens": "512 tokens, indexed,\nbatch of 256",
}
PUBLIC = "public webdataset + DataLoader, PIL, 2 processes"
# What we want to reach: (row, whom, what, how many times better at least).
TARGETS = [
    ("antialiased", PUBLIC, "per_second", 2.4),
    ("antialiased", "DALI CPU, antialiased, 2 threads", "per_second", 1.6),
    ("plain", "tf.data, TFRecord, 2 threads", "per_second", 1.2),
    ("plain", "grain, simplejpeg + OpenCV, 2 threads", "per_second", 1.2),
    ("plain", "SPDL, simplejpeg + OpenCV, 2 threads", "per_second", 1.2),
    ("plain", "public webdataset, simplejpeg + OpenCV, 2 processes", "per_second", 1.4),
    ("plain", "FFCV, jpg mode, 2 workers", "per_second", 1.5),
    ("float", PUBLIC, "per_second", 3.3),
    ("float", "DALI CPU, antialiased, 2 threads", "per_second", 1.4),
    ("raw", "FFCV, raw mode, 2 workers", "per_second", 1.0),
    ("small", "public webdataset", "per_second", 20),
    ("small", "tf.data, TFRecord, whole batches parsed, 2 threads", "per_second", 1.0),
    ("tokens", "tf.data, TFRecord, whole batches parsed, 2 threads", "per_second", 2),
    ("blobs", "page cache read", "per_second", 0.8),
    ("antialiased", PUBLIC, "peak_MB", 2),
    ("antialiased", PUBLIC.replace("2", "4"), "peak_MB", 2),
    ("antialiased", PUBLIC, "first_ms", 3),
]
WORDS = {"per_second": "rate", "peak_MB": "memory", "first_ms": "first batch"}
README = lab.HERE / "README.md"
REPORT = lab.DATA / "README.md" if lab.SMALL else README
PICTURE = lab.DATA / "bench.svg" if lab.SMALL else lab.ROOT / "docs" / "bench.svg"


def draw(results):
    """Bars, one panel a row of work; ours in colour."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "bench"
    from matplotlib import pyplot as plt

    rows = {row: found for row in TITLES if (found := measured(results["rows"].get(row, {})))}
    heights = [len(found) + 1.2 for found in rows.values()]
    figure, panels = plt.subplots(
        len(rows), 1, figsize=(8, 0.32 * sum(heights)), height_ratios=heights, squeeze=False, layout="constrained"
    )
    for panel, (row, found) in zip(panels[:, 0], rows.items(), strict=True):
        labels = list(found)[::-1]
        values = [found[label]["per_second"] for label in labels]
        colours = ["#d1495b" if label.startswith(lab.OURS) else "#9aa5b1" for label in labels]
        bars = panel.barh(labels, values, color=colours)
        panel.bar_label(bars, [f" {value:,.0f}" for value in values], fontsize=8)
        panel.set_title(TITLES[row].replace("\n", " "), loc="left", fontsize=9)
        panel.set_xlim(0, max(values) * 1.15)
        panel.xaxis.set_visible(False)
        panel.tick_params(axis="y", labelsize=8, length=0)
        panel.spines[["top", "right", "bottom"]].set_visible(False)
    machine = results["machine"]
    figure.supxlabel(
        f"samples a second, {machine['cores']} cores ({machine['processor']}), {machine['date']}", fontsize=8
    )
    figure.savefig(PICTURE, metadata={"Date": None})


def publish(results):
    """The tables, into the README between two marks."""
    text = README.read_text()
    before, _, rest = text.partition("<!-- measured -->\n")
    _, _, after = rest.partition("<!-- end -->\n")
    machine = results["machine"]
    said = f"{machine['date']}, {machine['cores']} cores ({machine['processor']}), Python {machine['python']}; "
    said += f"load at the start {machine['load_at_start']:.1f}.\n"
    parts = [
        said,
        targets(results["rows"]),
        *(in_markdown(row, results["rows"][row]) for row in ROWS if results["rows"].get(row)),
    ]
    REPORT.write_text(f"{before}<!-- measured -->\n" + "\n".join(parts) + f"<!-- end -->\n{after}")


def targets(rows):
    lines = ["| work | against | wanted | measured | in processor time |", "|---|---|---:|---:|---:|"]
    for row, whom, what, wanted in TARGETS:
        found = rows.get(row, {})
        ours = next((each for label, each in found.items() if label.startswith(lab.OURS)), {})
        theirs = found.get(whom, {})
        ratio = processor = theirs.get("skipped", "–")
        if what in ours and what in theirs:
            ratio = ours[what] / theirs[what] if what == "per_second" else theirs[what] / ours[what]
            processor = f"{theirs['cpu_us'] / ours['cpu_us']:.2f}" if what == "per_second" else ""
            ratio = f"**{ratio:.2f}**" if ratio >= wanted else f"{ratio:.2f}"
        lines.append(f"| {row}, {WORDS[what]} | {whom} | {wanted} | {ratio} | {processor} |")
    return "\n".join(lines) + "\n"


def in_markdown(row, found):
    title = TITLES.get(row, row).replace("\n", " ")
    lines = [f"### {row}: {title}\n" if row in TITLES else f"### {row}\n"]
    lines += ["| | samples/s | µs CPU | MB | first ms |", "|---|---:|---:|---:|---:|"]
    for label, each in sorted(found.items(), key=lambda one: -one[1].get("per_second", 0)):
        if "skipped" in each:
            lines.append(f"| {label} | skipped: {each['skipped']} | | | |")
            continue
        numbers = [
            f"{each['per_second']:,.0f}",
            f"{each['cpu_us']:,.4g}",
            f"{each['peak_MB']:,.0f}",
            f"{each['first_ms']:,.0f}",
        ]
        lines.append(f"| {label} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def measured(found):
    kept = {label: each for label, each in found.items() if "per_second" in each and label != "page cache read"}
    return dict(sorted(kept.items(), key=lambda one: -one[1]["per_second"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=lab.ROUNDS)
    parser.add_argument("--rows", nargs="*", default=ROWS, choices=ROWS)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    store = lab.DATA / "results.json"
    if not options.again:
        before = json.loads(store.read_text())["rows"] if store.exists() else {}
        results = {"machine": lab.machine(), "rows": before | lab.run(options.rows, rounds=options.rounds)}
        store.write_text(json.dumps(results, ensure_ascii=False, indent=1))
    results = json.loads(store.read_text())
    draw(results)
    publish(results)
    print(json.dumps(results, ensure_ascii=False))
    print(lab.table({row: results["rows"][row] for row in ROWS if row in results["rows"]}))
    print(f"\ndrawn: {PICTURE}")


if __name__ == "__main__":
    main()
