"""Samples → shards: complete under their names or not there at all, and the same bytes for the same samples.

In come samples (dicts with a `__key__` and fields), out go tar archives in any store. This room does not know how a
field is encoded (`codecs`), what a header looks like (`tar`), or how a store publishes (`stores`).

* `_shard_writer`  a series of archives: numbers, limits, what happens after each
* `_tar_writer`    one archive: fields in order, offsets, abort
* `_record`        index, size and checksum, noted down while writing
* `_check_names`         which keys and fields come back as they were written
* `_encode_sample`        what `encoder=` may be
* `_compress_archive`      whole-archive compression
* `_sink`          gathered writes into a stream, and who publishes or closes it
"""

from __future__ import annotations

from ._encode_sample import make_encoder
from ._record import Record
from ._shard_writer import ShardWriter
from ._tar_writer import Placed, TarWriter

__all__ = ["Placed", "Record", "ShardWriter", "TarWriter", "make_encoder"]
