"""Shards: from a spec to the shards of this epoch, in their order, and this process's part of them.

In: the user's spec (a string with braces, a path, a list, a directory, a YAML spec), the (seed, epoch) of a pass, the
world of this process. Out: items `dict(url=…)`, one per shard, and the arithmetic of orders, parts and mixes. This
package does not know what a tar archive is, how a shard is opened, or what a sample contains.

* `_expand`              text → addresses: braces, `::`, `${NAME}`, lists, globs, directories
* `_glob_with_braces`    globs with braces on local files
* `_count_progress`      progress that is one number
* `_shard_source`        what all sources of shards share: items, progress, passes
* `_shard_list`          shards as given, in one fixed order, or in a new order each epoch
* `_resampled`           shards with replacement; `resampled`
* `_non_empty`           refuses a stream without items
* `_directory_shards`    the shards of a directory; claiming on request
* `_yaml_spec`           YAML specs of several datasets
* `_splitters`           which process reads which shard, also if there are fewer shards than readers
* `_user_splitters`      the same for splitters that a user wrote
* `_mix_streams`         several streams as one: in turn or at random
* `_seed`                seeds made of any values
"""

from __future__ import annotations

from ._directory_shards import DirectoryShardList, check_pid_is_running, get_pid_from_filename, without_last_extension
from ._expand import envlookup, envsubst, expand, expand_in_file, expand_source, expand_urls, is_shard_name, kept
from ._glob_with_braces import fnmatch_with_braces, glob_with_braces
from ._mix_streams import compute_sample_weights, random_samples, round_robin_longest, round_robin_shortest
from ._non_empty import NonEmpty, no_samples, non_empty
from ._resampled import Resampled, ResampledShardList, ResampledShards, resampled
from ._seed import make_seed, pytorch_worker_info, pytorch_worker_seed
from ._shard_list import ShuffleShards, SimpleShardList, shard_order
from ._shard_source import ShardSource, Taken
from ._splitters import (
    ShareShards,
    SingleNodeOnly,
    SplitByNode,
    SplitByWorker,
    single_node_only,
    split_by_node,
    split_by_worker,
)
from ._user_splitters import SplitShards, are_ours
from ._yaml_spec import MSSource, MultiShardSample, load_yaml, parse_spec, shardspec

__all__ = [
    "DirectoryShardList",
    "MSSource",
    "MultiShardSample",
    "NonEmpty",
    "Resampled",
    "ResampledShardList",
    "ResampledShards",
    "ShardSource",
    "ShareShards",
    "ShuffleShards",
    "SimpleShardList",
    "SingleNodeOnly",
    "SplitByNode",
    "SplitByWorker",
    "SplitShards",
    "Taken",
    "are_ours",
    "check_pid_is_running",
    "compute_sample_weights",
    "envlookup",
    "envsubst",
    "expand",
    "expand_in_file",
    "expand_source",
    "expand_urls",
    "fnmatch_with_braces",
    "get_pid_from_filename",
    "glob_with_braces",
    "is_shard_name",
    "kept",
    "load_yaml",
    "make_seed",
    "no_samples",
    "non_empty",
    "parse_spec",
    "pytorch_worker_info",
    "pytorch_worker_seed",
    "random_samples",
    "resampled",
    "round_robin_longest",
    "round_robin_shortest",
    "shard_order",
    "shardspec",
    "single_node_only",
    "split_by_node",
    "split_by_worker",
    "without_last_extension",
]
