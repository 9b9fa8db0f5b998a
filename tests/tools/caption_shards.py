"""Small datasets for the tests of tools."""

import numpy as np

import webdataset as wds


def write(path, samples, **options):
    """A shard; the samples are (key, fields)."""
    with wds.TarWriter(str(path), **options) as sink:
        for key, fields in samples:
            sink.write({"__key__": key, **fields})
    return str(path)


def captions(folder, shards=3, per_shard=10, **options):
    """Shards of captions, classes and measures: sample 0007 has class 7 and width 70."""
    made = []
    for shard in range(shards):
        numbers = range(shard * per_shard, (shard + 1) * per_shard)
        samples = [
            (
                f"{n:04d}",
                {"txt": f"a photo of a {'dog' if n % 3 else 'Cat'}\nnumber {n}", "cls": n, "json": {"width": 10 * n}},
            )
            for n in numbers
        ]
        made.append(write(folder / f"train-{shard:03d}.tar", samples, **options))
    return made


def picture(height=8, width=8):
    return np.linspace(0, 255, height * width * 3).astype(np.uint8).reshape(height, width, 3)
