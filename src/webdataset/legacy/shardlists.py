"""`webdataset.shardlists`: sources of shards, and who reads which."""

from __future__ import annotations

import random

from webdataset.shards import (
    DirectoryShardList,
    MSSource,
    MultiShardSample,
    ResampledShardList,
    ResampledShards,
    SimpleShardList,
    check_pid_is_running,
    envlookup,
    envsubst,
    expand,
    expand_source,
    expand_urls,
    get_pid_from_filename,
    non_empty,
    resampled,
    shardspec,
    single_node_only,
    split_by_node,
    split_by_worker,
    without_last_extension,
)
from webdataset.stages import pipelinefilter

__all__ = [
    "DirectoryShardList",
    "MSSource",
    "MultiShardSample",
    "ResampledShardList",
    "ResampledShards",
    "SimpleShardList",
    "check_pid_is_running",
    "default_rng",
    "envlookup",
    "envsubst",
    "expand",
    "expand_source",
    "expand_urls",
    "get_pid_from_filename",
    "non_empty",
    "pipelinefilter",
    "resampled",
    "shardspec",
    "single_node_only",
    "split_by_node",
    "split_by_worker",
    "without_last_extension",
]

default_rng = random.Random()
"""For programs that import it; nothing here draws from it, because every order follows from a seed."""
