"""The samples room: shards → samples.

In come shards (`{"url": …}`, maybe with an open `stream` or a `local_path`); out come samples: dicts with `__key__`,
`__url__`, for local shards `__local_path__`, and the fields as bytes. A sample is the consecutive members of one shard
that share a key. This room does not know how a tar header looks, where bytes come from, or what a field means.

Files:
    _file_filter    which members are read, under what name
    _group_samples     members → samples, the rule in plain words
    _gather_samples    the same for whole windows of members, fast
    _sample_errors    how members fail to be samples
    _read_progress  how far the reader is
    _read_samples      shards → samples: the stage `ReadSamples`, and `read_shard`
"""

from webdataset.names import OWN_FIELDS, is_meta, split_name

from ._file_filter import choose
from ._group_samples import Sample, group_members
from ._read_samples import ReadSamples, read_shard

__all__ = [
    "OWN_FIELDS",
    "ReadSamples",
    "Sample",
    "choose",
    "group_members",
    "is_meta",
    "read_shard",
    "split_name",
]
