"""Shards kept on the local disk.

In: addresses. Out: streams and paths of local copies. This package knows names, sizes, versions, checksums and which
process fetches; of the contents of a shard it knows only the first bytes.

Each shard is fetched once, by one process, while any number of readers follow it byte by byte; it is validated, then
published by a rename. A process may be killed at any moment: the next one continues from the last byte. The cache never
deletes a file that it did not make.

    _shard_cache      ShardCache: open, get, forget
    _cache_stages     FileCache, StreamingOpen, CachedOpener: shards in, opened shards out
    _fetch_shard      the thread that fetches a shard
    _follow_fetch     the streams that read it meanwhile
    _revalidate       whether a copy is still what its origin has
    _quota            the size limit and LRU
    _records          files and records on the disk
    _locks            locks between processes, and waiting for another one
    _disk_errors      errors of the disk, as typed errors
    _machine_id       host, boot and process namespace
    _file_names       file names for addresses
    _file_type        the kind of a file by its first bytes
    _prefetch_shards  OpenAhead: the next shards while the current one is used
    _memory_cache     shards in memory (/dev/shm), shared by workers
    _download         one address to one file
    _download_bar     progress bars
    _cleanup          the public library's cleaner
"""

import importlib
from typing import Any

from webdataset import config

from ._cache_stages import DEFAULT_FOLDER, CachedOpener, FileCache, StreamingOpen
from ._cleanup import LRUCleanup
from ._download import download
from ._download_bar import progress_bar
from ._file_names import islocal, pipe_cleaner, url_to_cache_name, url_to_hashed_name
from ._file_type import check_tar_format, get_filetype, magic_filetype
from ._memory_cache import MemoryOpener
from ._prefetch_shards import OpenAhead
from ._shard_cache import ShardCache

__all__ = [
    "CachedOpener",
    "FileCache",
    "LRUCleanup",
    "MemoryOpener",
    "OpenAhead",
    "ShardCache",
    "StreamingOpen",
    "check_tar_format",
    "default_cache_dir",
    "default_cache_size",
    "download",
    "get_filetype",
    "islocal",
    "magic_filetype",
    "pipe_cleaner",
    "progress_bar",
    "url_to_cache_name",
    "url_to_hashed_name",
    "verbose_cache",
]


# Names of this module in the 0.2 series.
_OLDER = "cached_tarfile_samples cached_tarfile_to_samples cached_url_opener lru_cleanup"


def __getattr__(name: str) -> Any:
    """The public library's three constants, from the environment, and its older names."""
    constants: dict[str, Any] = {
        "default_cache_dir": lambda: config.read("WDS_CACHE") or DEFAULT_FOLDER,
        "default_cache_size": lambda: config.read("WDS_CACHE_SIZE"),
        "verbose_cache": lambda: config.read("WDS_VERBOSE_CACHE"),
    }
    if name in constants:
        return constants[name]()
    if name in _OLDER.split():  # these read samples; imported by name, because layers import downwards only
        return getattr(importlib.import_module("webdataset.older"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
