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

from typing import TYPE_CHECKING

from webdataset.lazy_names import lazy_names

if TYPE_CHECKING:
    from ._directory_shards import DirectoryShardList as DirectoryShardList
    from ._directory_shards import check_pid_is_running as check_pid_is_running
    from ._directory_shards import get_pid_from_filename as get_pid_from_filename
    from ._directory_shards import without_last_extension as without_last_extension
    from ._expand import envlookup as envlookup
    from ._expand import envsubst as envsubst
    from ._expand import expand as expand
    from ._expand import expand_in_file as expand_in_file
    from ._expand import expand_source as expand_source
    from ._expand import expand_urls as expand_urls
    from ._expand import is_shard_name as is_shard_name
    from ._expand import kept as kept
    from ._glob_with_braces import fnmatch_with_braces as fnmatch_with_braces
    from ._glob_with_braces import glob_with_braces as glob_with_braces
    from ._mix_streams import compute_sample_weights as compute_sample_weights
    from ._mix_streams import random_samples as random_samples
    from ._mix_streams import round_robin_longest as round_robin_longest
    from ._mix_streams import round_robin_shortest as round_robin_shortest
    from ._non_empty import NonEmpty as NonEmpty
    from ._non_empty import no_samples as no_samples
    from ._non_empty import non_empty as non_empty
    from ._resampled import Resampled as Resampled
    from ._resampled import ResampledShardList as ResampledShardList
    from ._resampled import ResampledShards as ResampledShards
    from ._resampled import resampled as resampled
    from ._seed import make_seed as make_seed
    from ._seed import pytorch_worker_info as pytorch_worker_info
    from ._seed import pytorch_worker_seed as pytorch_worker_seed
    from ._shard_list import ShuffleShards as ShuffleShards
    from ._shard_list import SimpleShardList as SimpleShardList
    from ._shard_list import shard_order as shard_order
    from ._shard_source import ShardSource as ShardSource
    from ._shard_source import Taken as Taken
    from ._splitters import ShareShards as ShareShards
    from ._splitters import SingleNodeOnly as SingleNodeOnly
    from ._splitters import SplitByNode as SplitByNode
    from ._splitters import SplitByWorker as SplitByWorker
    from ._splitters import single_node_only as single_node_only
    from ._splitters import split_by_node as split_by_node
    from ._splitters import split_by_worker as split_by_worker
    from ._user_splitters import SplitShards as SplitShards
    from ._user_splitters import are_ours as are_ours
    from ._yaml_spec import MSSource as MSSource
    from ._yaml_spec import MultiShardSample as MultiShardSample
    from ._yaml_spec import load_yaml as load_yaml
    from ._yaml_spec import parse_spec as parse_spec
    from ._yaml_spec import shardspec as shardspec

# The file of each name.
_FILES = {
    "_directory_shards": "DirectoryShardList check_pid_is_running get_pid_from_filename without_last_extension",
    "_expand": "envlookup envsubst expand expand_in_file expand_source expand_urls is_shard_name kept",
    "_glob_with_braces": "fnmatch_with_braces glob_with_braces",
    "_mix_streams": "compute_sample_weights random_samples round_robin_longest round_robin_shortest",
    "_non_empty": "NonEmpty no_samples non_empty",
    "_resampled": "Resampled ResampledShardList ResampledShards resampled",
    "_seed": "make_seed pytorch_worker_info pytorch_worker_seed",
    "_shard_list": "ShuffleShards SimpleShardList shard_order",
    "_shard_source": "ShardSource Taken",
    "_splitters": "ShareShards SingleNodeOnly SplitByNode SplitByWorker single_node_only split_by_node split_by_worker",
    "_user_splitters": "SplitShards are_ours",
    "_yaml_spec": "MSSource MultiShardSample load_yaml parse_spec shardspec",
}
_LAZY, _load = lazy_names(__name__, _FILES)

__all__ = sorted(_LAZY)  # noqa: PLE0605  # from the table

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = _load
