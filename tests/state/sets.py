"""Prints what checkpoints remember of datasets that have sets in their arguments, and the order of their shards."""

import sys
from dataclasses import dataclass
from functools import partial

import webdataset as wds
from webdataset.codecs import ImageHandler
from webdataset.pipeline._checkpoint import fingerprint

NAMES = {"jpg", "cls", "txt", "png", "it's", 'say "x"'}


@dataclass
class Settings:
    names: frozenset
    number: int = 3


def keep(sample, **options):
    return sample


def dataset(**options):
    return wds.WebDataset("a-{0..2}.tar", shardshuffle=False, index=False, **options)


DATASETS = {
    "decode(only=)": lambda: dataset().decode("rgb8", only=NAMES),
    "a Decoder": lambda: dataset().map(wds.Decoder(["rgb8"], only="jpg cls txt png")),
    "extensions of an ImageHandler": lambda: dataset().decode(ImageHandler("rgb8", extensions={"jpg", "png", "gif"})),
    "extensions of decode": lambda: dataset().decode("rgb8", size=8, extensions={"jpg", "png", "gif"}),
    "a partial": lambda: dataset().map(partial(keep, names=NAMES)),
    "a partial of a frozenset": lambda: dataset().select(partial(keep, names=frozenset(NAMES))),
    "sets inside of lists and dicts": lambda: dataset().map(partial(keep, names={"x": [NAMES, (NAMES,)]})),
    "a dataclass": lambda: dataset().map(partial(keep, settings=Settings(frozenset(NAMES)))),
    "select_files": lambda: dataset(select_files=partial(keep, names=NAMES)),
    "shards": lambda: wds.WebDataset({f"{n}.tar" for n in range(9)}, shardshuffle=False, index=False),
}

if __name__ == "__main__":
    for name, build in DATASETS.items():
        made = build()
        print(name, fingerprint(made.pipeline), made.pipeline[0].urls, file=sys.stdout)
