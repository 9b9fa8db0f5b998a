"""The shards that the pipelines of `pipelines.py` read: byte for byte the same everywhere."""

import io
import json
import tarfile
from pathlib import Path

import webdataset as wds

# How many tokens each sample has.
LENGTHS = (3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 2)


def write_shards(directory, a=(4, 3, 4), b=(5, 2)):
    """Write all shards below a directory, byte for byte the same everywhere; `a` and `b` count samples per shard."""
    directory = Path(directory)
    for kind in ("streamed", "indexed"):
        (directory / kind).mkdir()
        for name, counts in {"a": a, "b": b}.items():
            _write_dataset(directory / kind, name, counts, name, _sample)
    _write_dataset(directory / "streamed", "labels", a, "a", _label)
    wds.index_shards(sorted(str(path) for path in (directory / "indexed").glob("*.tar")))


def _write_dataset(directory, name, counts, letter, fields):
    first = 0
    for number, count in enumerate(counts):
        with tarfile.open(directory / f"{name}-{number}.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
            for sample in range(first, first + count):
                for field, content in fields(sample).items():
                    member = tarfile.TarInfo(f"{letter}{sample:02d}.{field}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        first += count


def _sample(number):
    return {"tokens.json": json.dumps([number] * LENGTHS[number]).encode(), "txt": f"text {number}".encode()}


def _label(number):
    return {"label.txt": f"label {number}".encode()}
