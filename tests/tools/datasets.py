"""Small datasets for the tests of `tools` and `cli`."""

import hashlib
from pathlib import Path

import webdataset as wds


def write_shard(path, samples):
    """One shard with these samples; its address."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with wds.TarWriter(str(path)) as sink:
        for sample in samples:
            sink.write(sample)
    return str(path)


def write_numbers(folder, shards=3, each=7, start=0):
    """Shards `train-0.tar` … of samples `000000` … with their number as txt, cls and json."""
    urls, number = [], start
    for shard in range(shards):
        samples = []
        for _ in range(each):
            value = {"n": number, "even": number % 2 == 0}
            samples.append({"__key__": f"{number:06d}", "txt": f"{number}", "cls": number % 5, "json": value})
            number += 1
        urls.append(write_shard(f"{folder}/train-{shard}.tar", samples))
    return urls


def read(*urls):
    """All samples of shards, as {key: {field: bytes}}, in order; a key twice is an error."""
    found = {}
    for url in urls:
        for sample in wds.WebDataset(str(url), shardshuffle=False, empty_check=False, index=False):
            assert sample["__key__"] not in found
            found[sample["__key__"]] = {name: data for name, data in sample.items() if not name.startswith("__")}
    return found


def keys(*urls):
    return list(read(*urls))


def digests(folder):
    """The content of every visible file of a folder, by name."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def hidden(folder):
    """What is left in a folder besides ledgers."""
    return [path.name for path in Path(folder).rglob(".*") if not path.name.startswith(".wds-")]


def write_inputs(folder, shards=5, each=4):
    return [
        write_shard(f"{folder}/in/{s}.tar", [{"__key__": f"{s}-{n}", "txt": f"text {s} {n}"} for n in range(each)])
        for s in range(shards)
    ]
