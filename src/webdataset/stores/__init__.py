"""Bytes, from wherever they lie, and to there.

In: an address (a path, or a URL of any scheme). Out: a binary stream, a range of bytes, a size, a list of addresses.
This room knows connections, commands, ranges, retries and secrets; it does not know what is inside the bytes.

Every end of a stream is verified, every fault is healed or raised as one typed error that names shard and offset, and
what is written appears at its address complete or not at all.

    _open         the verbs: open_read, open_write, read_range, stat, list_urls, is_local, gopen
    _registry     which store serves which scheme; users add theirs to `schemes`
    _store        what a store is                    _stream     what a stream is
    _upload       what writing is                    _address    schemes and local paths
    _rewrite      GOPEN_REWRITE                      _guard      secure mode, untrusted addresses
    _globs        patterns                           _redact     addresses without secrets
    _resume       the only file that waits, tries again and goes on from the next byte
    _local  _memory  _standard  _pipe  _http         one kind of place each
    _object       s3, gs, az                         _broker     the same for forked children, done by a _desk
    _huggingface  hf                                 _ais        AIStore
    _fsspec       everything else
    _handler      a user's own opener
    _request  _pool  _auth  _wire  _index_page       what HTTP needs
    _ahead        the next shards, read while the current one is used
    _counters     bytes, retries, rates
"""

from ._address import scheme_of
from ._ahead import ReadAhead, read_ahead
from ._ais import AisStore
from ._counters import Counters, counters, growth, rates
from ._fsspec import FsspecStore
from ._globs import is_pattern
from ._guard import refuse_untrusted
from ._http import HttpStore
from ._huggingface import HuggingFaceStore
from ._local import LocalStore, process_lives
from ._memory import MemoryStore
from ._object import CloudStore
from ._open import gopen, is_local, list_urls, open_read, open_write, read_range, stat
from ._pipe import Pipe, PipeStore
from ._pool import close_connections
from ._redact import redacted
from ._registry import schemes, store_for
from ._resume import Backoff, Patience, ResumingStream, abandonable, pause
from ._rewrite import rewrite_url
from ._standard import StandardStore
from ._store import Stat, Store, skip
from ._stream import Stream
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
]
