"""`webdataset.mix`: several datasets as one. The module itself can be called, like the function in it."""

from __future__ import annotations

from webdataset.pipeline import RandomMix, RoundRobin, mix
from webdataset.shards import random_samples, round_robin_longest, round_robin_shortest

from ._live import make_callable

__all__ = ["RandomMix", "RoundRobin", "mix", "random_samples", "round_robin_longest", "round_robin_shortest"]

make_callable(__name__, "mix")
