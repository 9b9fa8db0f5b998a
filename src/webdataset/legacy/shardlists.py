"""`webdataset.shardlists`: sources of shards, and splitters."""

from __future__ import annotations

import random

from webdataset import shards
from webdataset.shards import *  # noqa: F403 - its public names, and more
from webdataset.stages import pipelinefilter

__all__ = ["default_rng", "pipelinefilter"]
__all__ += shards.__all__

default_rng = random.Random()
"""For programs that import it; this package does not use it, because every order follows from a seed."""
