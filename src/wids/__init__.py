"""Random access to the samples of tar shards, under the names of the `wids` package.

>>> from webdataset.testing import make_shard
>>> shard = make_shard("memory://wids/a.tar", [{"__key__": "0", "txt": "hello"}, {"__key__": "1", "txt": "world"}])
>>> dataset = ShardListDataset([{"url": shard, "nsamples": 2}])
>>> len(dataset), dataset[1][".txt"]
(2, 'world')

In: descriptions of datasets (shards, and how many samples each has) and sample numbers. Out: samples, dicts whose
fields have a leading dot. `webdataset` does the reading; `wds.IndexedDataset` is the same without the dots, and the
better choice for new code.

* `_shard_list_dataset`       `ShardListDataset`
* `_shard_location`        where a shard is read: at its address, or from a checked copy on the local disk
* `_transforms`        transformations of samples whose fields have dots
* `_samplers`      orders that go well with shards
* `_descriptions`  make and change descriptions
* `_command`       `widsindex`
* `_tar_members`   the members of a local tar file by number
* `_indexed_tar`   samples of one local shard, and the shards that were used last
* `wids`, `wids_cleanup`, `wids_decode`, `wids_dl`, `wids_lru`, `wids_mmtar`, `wids_specs`, `wids_tar`: the module names
  that programs import from
"""

from ._samplers import ChunkedSampler, DistributedChunkedSampler, ShardedSampler, ShardListSampler
from ._shard_list_dataset import ShardListDataset
from ._transforms import decode_all_gz, decode_basic, decode_images_to_numpy, decode_images_to_pil

__all__ = [
    "ChunkedSampler",
    "DistributedChunkedSampler",
    "ShardListDataset",
    "ShardListSampler",
    "ShardedSampler",
    "decode_all_gz",
    "decode_basic",
    "decode_images_to_numpy",
    "decode_images_to_pil",
]
