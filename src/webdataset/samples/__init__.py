"""Samples: shards → samples.

In: shards (`{"url": …}`, optionally with an open `stream` or a `local_path`). Out: samples: dicts with `__key__`,
`__url__`, for local shards `__local_path__`, and the fields as bytes. A sample is the consecutive members of one shard
that share a key. This package does not know tar headers, stores or the meaning of fields.

Files:
    _file_filter     which members are read, under what name
    _gather_samples  members → samples, a window of them at a time
    _sample_errors   errors for members that make no sample
    _read_progress   how far the reader is
    _read_samples    shards → samples: the stage `ReadSamples`, and `read_shard`
"""

from webdataset.names import OWN_FIELDS, is_meta, split_name

from ._file_filter import choose
from ._gather_samples import Gathered, Gatherer, Sample
from ._read_samples import ReadSamples, read_shard

__all__ = [
    "OWN_FIELDS",
    "Gathered",
    "Gatherer",
    "ReadSamples",
    "Sample",
    "choose",
    "is_meta",
    "read_shard",
    "split_name",
]
