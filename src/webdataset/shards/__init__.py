"""Shards: from a spec to the shards of this epoch, in their order, and my part of them.

Comes in: what the user wrote (a string with braces, a path, a list, a directory, a YAML spec), the (seed, epoch) of a
pass, the world of this process. Goes out: items `dict(url=…)`, one per shard, and the arithmetic of orders, parts and
mixes. This room does not know what a tar is, how a shard is opened, or what a sample holds; for indexed datasets it
knows how many samples each shard has, and no more.

* `_spec`        text → addresses: braces, `::`, `${NAME}`, lists, globs, directories
* `_glob`        globs with braces on local files
* `_source`      what all sources of shards share: items, progress, passes
* `_list`        shards as given, in one fixed order, or in a new order each epoch
* `_resample`    shards with replacement; `resampled`, `non_empty`
* `_directory`   the shards of a directory; claiming on request
* `_multi`       YAML specs of several datasets
* `_split`       who reads which shard, also where shards are fewer than readers
* `_permutation` a keyed permutation that is computed, not stored
* `_order`       an epoch's order as arithmetic: position → (shard, sample), and back
* `_partition`   who fetches which positions: equal steps, every sample once
* `_rest`        what is left of an epoch
* `_report`      what an order promises, in numbers
* `_mixing`      several streams into one: in turn or by chance
* `_schedule`    several streams into one, by exact shares
* `_seed`        seeds out of anything
"""

from __future__ import annotations

from ._directory import (
    DirectoryShardList,
    check_pid_is_running,
    get_pid_from_filename,
    without_last_extension,
)
from ._glob import fnmatch_with_braces, glob_with_braces
from ._list import ShuffleShards, SimpleShardList, shard_order, shuffled_shards
from ._mixing import (
    check_weights,
    compute_sample_weights,
    pick,
    random_samples,
    round_robin_longest,
    round_robin_shortest,
)
from ._multi import MSSource, MultiShardSample, parse_spec, shardspec
from ._order import Order, Window, quasi_random, sequential
from ._partition import Part, Steps
from ._permutation import Permutation, derive_keys, permute
from ._report import Mixing, ShuffleReport, shuffle_report
from ._resample import NonEmpty, Resampled, ResampledShardList, ResampledShards, non_empty, resampled
from ._rest import Reader, Rest, numbers_of
from ._schedule import MixSchedule
from ._seed import make_seed, pytorch_worker_info, pytorch_worker_seed
from ._source import ShardSource, Taken
from ._spec import envlookup, envsubst, expand, expand_source, expand_urls, is_shard_name
from ._split import (
    ShareShards,
    SingleNodeOnly,
    SplitByNode,
    SplitByWorker,
    single_node_only,
    split_by_node,
    split_by_worker,
)

__all__ = [
    "DirectoryShardList",
    "MSSource",
    "MixSchedule",
    "Mixing",
    "MultiShardSample",
    "NonEmpty",
    "Order",
    "Part",
    "Permutation",
    "Reader",
    "Resampled",
    "ResampledShardList",
    "ResampledShards",
    "Rest",
    "ShardSource",
    "ShareShards",
    "ShuffleReport",
    "ShuffleShards",
    "SimpleShardList",
    "SingleNodeOnly",
    "SplitByNode",
    "SplitByWorker",
    "Steps",
    "Taken",
    "Window",
    "check_pid_is_running",
    "check_weights",
    "compute_sample_weights",
    "derive_keys",
    "envlookup",
    "envsubst",
    "expand",
    "expand_source",
    "expand_urls",
    "fnmatch_with_braces",
    "get_pid_from_filename",
    "glob_with_braces",
    "is_shard_name",
    "make_seed",
    "non_empty",
    "numbers_of",
    "parse_spec",
    "permute",
    "pick",
    "pytorch_worker_info",
    "pytorch_worker_seed",
    "quasi_random",
    "random_samples",
    "resampled",
    "round_robin_longest",
    "round_robin_shortest",
    "sequential",
    "shard_order",
    "shardspec",
    "shuffle_report",
    "shuffled_shards",
    "single_node_only",
    "split_by_node",
    "split_by_worker",
    "without_last_extension",
]
