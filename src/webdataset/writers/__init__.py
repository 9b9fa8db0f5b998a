"""Samples → shards: complete under their names or not visible at all, and the same bytes for the same samples.

In: samples (dicts with a `__key__` and fields). Out: tar archives in any store. This package does not know how a field
is encoded (`codecs`), what a header looks like (`tar`), or how a store publishes (`stores`).

* `_shard_writer`      a series of archives: numbers, limits, what happens after each
* `_tar_writer`        one archive: fields in order, offsets, abort
* `_writer_lock`       one writer at a time for a local archive
* `_earlier_run`       shards of an earlier, longer run under the same pattern
* `_shard_record`      index, size and checksum, recorded while writing
* `_check_names`       which keys and fields are read as they were written
* `_encode_sample`     what `encoder=` may be
* `_compress_archive`  whole-archive compression
* `_sink`              gathered writes into a stream, and who publishes or closes it
"""

from __future__ import annotations

from ._earlier_run import EarlierRun
from ._encode_sample import make_encoder
from ._shard_record import Record
from ._shard_writer import ShardWriter
from ._tar_writer import Placed, TarWriter

__all__ = ["EarlierRun", "Placed", "Record", "ShardWriter", "TarWriter", "make_encoder"]
