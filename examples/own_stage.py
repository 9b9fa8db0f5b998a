"""A stage of your own is a function from an iterator to an iterator: write a generator and put it into the pipeline.

python examples/own_stage.py
"""

import tempfile
from functools import partial

from shapes import samples

import webdataset as wds


def neighbours(source, distance=1):
    """Pairs of samples that lie `distance` apart in the stream, for example to learn what follows what."""
    waiting = []
    for sample in source:
        waiting.append(sample)
        if len(waiting) > distance:
            yield waiting.pop(0), sample


def only_changes(source):
    """Leave pairs of equal classes out."""
    for before, after in source:
        if before["cls"] != after["cls"]:
            yield before, after


def main():
    with tempfile.TemporaryDirectory() as folder:
        with wds.TarWriter(f"{folder}/shapes.tar") as sink:
            for sample in samples(12):
                sink.write(sample)
        dataset = wds.DataPipeline(
            wds.SimpleShardList(f"{folder}/shapes.tar"),
            wds.tarfile_to_samples(),
            wds.decode(),
            partial(neighbours, distance=2),  # functools.partial passes arguments
            only_changes,
        )
        for before, after in dataset:
            print(f"{before['__key__']} {before['json']['shape']:>10}  →  {after['__key__']} {after['json']['shape']}")


if __name__ == "__main__":
    main()
