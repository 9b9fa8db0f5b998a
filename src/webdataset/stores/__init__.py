"""Bytes from and to anywhere.

In: an address (a path, or a URL of any scheme). Out: a binary stream, a range of bytes, a size, a list of addresses.
This package handles connections, commands, ranges, retries and credentials. It does not know what the bytes contain.

The end of every stream is verified. A failure is retried, or raised as one typed error with shard and offset. What is
written appears at its address complete or not at all.

    _open               open_read, open_write, read_bytes, write_bytes, read_range, stat, list_urls, is_local, gopen
    _trust              which addresses may be opened: one table, secure mode
    _registry           which store serves which scheme; users add theirs to `schemes`
    _parse_address      schemes and local paths
    _rewrite            GOPEN_REWRITE
    _globs              patterns
    _store              the interface of a store
    _byte_stream        the base class of streams for reading
    _upload             the base class of streams for writing
    _resuming_stream    retries, and resumes a broken stream at the next byte
    _same_object        whether bytes of two requests belong to one object
    _local_files, _memory_store, _standard_streams, _pipe, _http     one store each
    _object_store       s3, gs, az
    _broker, _broker_server      the same for forked children
    _huggingface        hf
    _ais                AIStore
    _fsspec             every other scheme
    _user_opener        a user's own opener
    _lock_file          locks between processes
    _temporary_folder   a folder that does not stay, even if its process is killed
    _system_errors      errors of the operating system, as typed errors
    _request, _connection_pool, _timely_headers, _auth, _index_page    used by the HTTP stores
    _read_ahead         opens and reads the next shards while the current one is used
    _counters           bytes, retries, rates
"""

from webdataset.redact import redacted

from ._ais import AisStore
from ._byte_stream import Stream
from ._connection_pool import close_connections
from ._counters import Counters, counters, growth, rates
from ._fsspec import FsspecStore
from ._globs import is_pattern
from ._http import HttpStore
from ._huggingface import HuggingFaceStore
from ._local_files import LocalStore, hidden_name, lock_folder, process_lives, sweep_folder, temporary_prefix
from ._lock_file import lock_file, remove_lock
from ._memory_store import MemoryStore
from ._object_store import CloudStore
from ._open import (
    gopen,
    is_local,
    list_urls,
    open_read,
    open_write,
    permitted,
    read_bytes,
    read_range,
    size_of,
    stat,
    write_bytes,
)
from ._parse_address import as_address, local_file, scheme_of
from ._pipe import Pipe, PipeStore
from ._read_ahead import ReadAhead
from ._registry import schemes, store_for
from ._resuming_stream import Backoff, Patience, abandonable, pause
from ._rewrite import rewrite_url
from ._same_object import BytesRead, is_strong
from ._standard_streams import StandardStore
from ._store import Stat, Store, read_document, read_fully, skip
from ._system_errors import system_errors
from ._temporary_folder import TemporaryFolder
from ._upload import Closing, SpooledUpload, Upload, close_or_abort

__all__ = [
    "AisStore",
    "Backoff",
    "BytesRead",
    "Closing",
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
    "SpooledUpload",
    "StandardStore",
    "Stat",
    "Store",
    "Stream",
    "TemporaryFolder",
    "Upload",
    "abandonable",
    "as_address",
    "close_connections",
    "close_or_abort",
    "counters",
    "gopen",
    "growth",
    "hidden_name",
    "is_local",
    "is_pattern",
    "is_strong",
    "list_urls",
    "local_file",
    "lock_file",
    "lock_folder",
    "open_read",
    "open_write",
    "pause",
    "permitted",
    "process_lives",
    "rates",
    "read_bytes",
    "read_document",
    "read_fully",
    "read_range",
    "redacted",
    "remove_lock",
    "rewrite_url",
    "scheme_of",
    "schemes",
    "size_of",
    "skip",
    "stat",
    "store_for",
    "sweep_folder",
    "system_errors",
    "temporary_prefix",
    "write_bytes",
]
