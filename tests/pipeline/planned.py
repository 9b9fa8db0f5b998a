"""Datasets that are read by plan, and the order that the arithmetic alone gives them."""

import itertools

import numpy as np

import webdataset as wds
from tests.pipeline.indexed import N, uneven_counts
from webdataset.order import Order

RANKS, WORKERS = (1, 2, 3, 4, 6, 8), (1, 2, 3)  # no worker reads as one does: in the process itself
TOPOLOGIES = list(itertools.product(RANKS, WORKERS))
BATCH = 4


def keys(dataset):
    return [sample["__key__"] for sample in dataset]


def sequence_of(shards, window=None, seed=0, epoch=0):
    """The keys of an epoch, by the arithmetic alone."""
    counts = uneven_counts()
    starts = np.concatenate(([0], np.cumsum(counts)))
    which, numbers = Order(counts, seed, epoch, window).locate(np.arange(N))
    return [f"{number:05d}" for number in starts[which] + numbers]


def batches(shards, batch=BATCH, **options):
    options = {"order": "random", "uneven": "pad", **options}
    return wds.WebDataset(shards, **options).to_tuple("__key__", "__pad__").batched(batch, collation_fn=columns)


def columns(samples):
    return [key for key, _ in samples], [pad for _, pad in samples]
