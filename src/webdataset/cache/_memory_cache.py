"""Shards kept in memory, once for all workers: a cache directory in `/dev/shm`, removed with the dataset.

Local files are opened directly: the system keeps them in memory already, for all processes.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

from webdataset import stores
from webdataset.errors import SpecError

from ._cache_stages import CachedOpener
from ._machine_id import short_machine
from ._shard_cache import ShardCache

_MEMORY = "/dev/shm"  # noqa: S108 - a file system in memory, not a place for temporary files
# The part of the free memory there that shards may take; the least recently used are evicted.
_SHARE = 0.9


class MemoryOpener:
    """Opens shards from memory; `start` works as for stores.

    >>> with stores.open_write("memory://docs/m.tar") as stream:
    ...     _ = stream.write(b"hello")
    >>> opener = MemoryOpener()
    >>> with opener("memory://docs/m.tar") as stream:
    ...     stream.read()
    b'hello'
    >>> with stores.open_write("memory://docs/m.tar") as stream:
    ...     _ = stream.write(b"other")
    >>> with opener("memory://docs/m.tar", start=1) as stream:
    ...     stream.read()
    b'ello'
    """

    def __init__(self, opener: Callable[..., Any] = stores.open_read) -> None:
        if not os.path.isdir(_MEMORY):
            raise SpecError("this system has no /dev/shm to keep shards in", hint="use cache_dir= instead")
        with stores.system_errors(_MEMORY):
            _remove_abandoned()
            folder = tempfile.mkdtemp(prefix=f"{_prefix()}-{os.getpid()}-", dir=_MEMORY)
        weakref.finalize(self, _remove, folder, os.getpid())
        self._use(opener, folder)

    def _use(self, opener: Callable[..., Any], folder: str) -> None:
        space = os.statvfs(_MEMORY)
        limit = int(space.f_bavail * space.f_frsize * _SHARE)
        self._opener, self._folder = opener, folder
        self._cached = CachedOpener(ShardCache(folder, limit, validator=None, revalidate="never", opener=opener))

    def __call__(self, url: str, *, start: int = 0) -> Any:
        """A stream of the shard from byte `start` on."""
        if stores.is_local(url) is not None:
            return self._opener(url, start=start) if start else self._opener(url)
        return self._cached(url, start=start)

    def open_soon(self, url: str) -> Any:
        """A stream of the shard that is being fetched from now on; `begin` waits for its first byte."""
        return self._cached.open_soon(url)

    def fetch(self, url: str) -> str:
        """The path of a complete copy of a shard; a local file is its own."""
        return self._cached.fetch(url)

    def __repr__(self) -> str:
        return "MemoryOpener()"

    def __getstate__(self) -> dict[str, Any]:
        """Share the memory with a process that is being spawned; any other copy starts empty."""
        context = sys.modules.get("multiprocessing.context")
        spawning = context is not None and context.get_spawning_popen() is not None
        return {"opener": self._opener, "folder": self._folder if spawning else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["folder"] is None:
            self.__init__(state["opener"])  # type: ignore[misc]  # our own constructor
        else:
            self._use(state["opener"], state["folder"])


def _prefix() -> str:
    return f"webdataset-{short_machine()}"


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned() -> None:
    """Remove the files of processes that were killed."""
    for name in os.listdir(_MEMORY):
        prefix, _, rest = name.rpartition("-")
        known, _, process = prefix.rpartition("-")
        if rest and known == _prefix() and process.isdigit() and not stores.process_lives(int(process)):
            shutil.rmtree(os.path.join(_MEMORY, name), ignore_errors=True)
