"""`webdataset.mix`: several datasets as one."""

from __future__ import annotations

from webdataset.pipeline import RandomMix, RoundRobin
from webdataset.shards import random_samples, round_robin_longest, round_robin_shortest

__all__ = ["RandomMix", "RoundRobin", "random_samples", "round_robin_longest", "round_robin_shortest"]
