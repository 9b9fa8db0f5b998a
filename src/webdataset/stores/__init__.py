"""Bytes, from wherever they lie, and to there.

In: an address (a path, or a URL of any scheme). Out: a binary stream, a range of bytes, a size, a list of addresses.
This room knows connections, commands, ranges, retries and secrets; it does not know what is inside the bytes.

Every end of a stream is verified, every fault is healed or raised as one typed error that names shard and offset, and
what is written appears at its address complete or not at all.

    _open         the verbs: open_read, open_write, read_range, stat, list_urls, is_local, gopen
    _registry     which store serves which scheme; users add theirs to `schemes`
    _store        what a store is                    _byte_stream     what a stream is
    _upload       what writing is                    _address    schemes and local paths
    _rewrite      GOPEN_REWRITE                      _address_guard      secure mode, untrusted addresses
    _globs        patterns                           _redact     addresses without secrets
    _resuming_stream       the only file that waits, tries again and goes on from the next byte
    _local_files  _memory_store  _standard  _pipe  _http         one kind of place each
    _object_store       s3, gs, az                         _broker, _broker_server  the same for forked children
    _huggingface  hf                                 _ais        AIStore
    _fsspec       everything else
    _user_opener      a user's own opener
    _request  _connection_pool  _auth  _wire  _index_page       what HTTP needs
    _read_ahead        the next shards, read while the current one is used
    _counters     bytes, retries, rates
"""

from ._address import scheme_of
from ._address_guard import refuse_untrusted
from ._ais import AisStore
from ._byte_stream import Stream
from ._connection_pool import close_connections
from ._counters import Counters, counters, growth, rates
from ._fsspec import FsspecStore
from ._globs import is_pattern
from ._http import HttpStore
from ._huggingface import HuggingFaceStore
from ._local_files import LocalStore, process_lives, sweep_folder
from ._memory_store import MemoryStore
from ._object_store import CloudStore
from ._open import gopen, is_local, list_urls, open_read, open_write, read_range, stat
from ._pipe import Pipe, PipeStore
from ._read_ahead import ReadAhead, read_ahead
from ._redact import redacted
from ._registry import schemes, store_for
from ._resuming_stream import Backoff, Patience, ResumingStream, abandonable, pause
from ._rewrite import rewrite_url
from ._standard import StandardStore
from ._store import Stat, Store, skip
from ._upload import Upload

__all__ = [
    "AisStore",
    "Backoff",
    "CloudStore",
    "Counters",
    "FsspecStore",
    "HttpStore",
    "HuggingFaceStore",
    "LocalStore",
    "MemoryStore",
    "Patience",
    "Pipe",
    "PipeStore",
    "ReadAhead",
    "ResumingStream",
    "StandardStore",
    "Stat",
    "Store",
    "Stream",
    "Upload",
    "abandonable",
    "close_connections",
    "counters",
    "gopen",
    "growth",
    "is_local",
    "is_pattern",
    "list_urls",
    "open_read",
    "open_write",
    "pause",
    "process_lives",
    "rates",
    "read_ahead",
    "read_range",
    "redacted",
    "refuse_untrusted",
    "rewrite_url",
    "scheme_of",
    "schemes",
    "skip",
    "stat",
    "store_for",
    "sweep_folder",
]
