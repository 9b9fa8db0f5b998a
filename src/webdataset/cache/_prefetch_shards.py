"""Shards in, opened shards out, while the next ones are fetched: a stage before the reader of samples."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from webdataset.arguments import require_count
from webdataset.flow import (
    EndOfStreamError,
    Json,
    Pass,
    Progress,
    Recall,
    Resumable,
    ask_handler,
    url_as_json,
    url_from_json,
)
from webdataset.handlers import Handler, reraise_exception
from webdataset.stores import ReadAhead, abandonable, is_local, open_read

Shard = dict[str, Any]


class _Waiting(Progress):
    """The shards that were taken from upstream and not yet yielded; resuming reads them from their start."""

    def __init__(self) -> None:
        self.shards: deque[Shard] = deque()

    def save(self) -> Json:
        return [{**shard, "url": url_as_json(shard["url"])} for shard in self.shards]

    def load(self, saved: Json, recall: Recall) -> None:
        self.shards = deque({**shard, "url": url_from_json(shard["url"])} for shard in saved)


@dataclass(frozen=True, repr=False)
class OpenAhead(Resumable):
    """Opens shards and reads the next ones ahead by threads; their order is unchanged.

    >>> from webdataset import stores
    >>> for name in "ab":
    ...     with stores.open_write(f"memory://open-ahead/{name}") as stream:
    ...         _ = stream.write(name.encode())
    >>> stage = OpenAhead(depth=2)
    >>> [shard["stream"].read() for shard in stage([{"url": f"memory://open-ahead/{name}"} for name in "ab"])]
    [b'a', b'b']

    Local files are left to the reader. Shards that go through a cache are fetched into it ahead, and read from there.

    Args:
        depth: How many shards are read at once, the one in use included.
        budget_bytes: How many bytes may wait in memory, over all of them.
        opener: Opens one address.
        handler: Called for a shard that cannot be opened.
    """

    depth: int = 4
    budget_bytes: int = 256 << 20
    opener: Callable[[str], Any] = open_read
    handler: Handler = reraise_exception

    def __post_init__(self) -> None:
        require_count("OpenAhead", "depth", self.depth, least=1)
        require_count("OpenAhead", "budget_bytes", self.budget_bytes, least=1)

    def __repr__(self) -> str:
        # Part of a checkpoint: names, which are the same in every process.
        names = ", ".join(f"{name}={_named(getattr(self, name))}" for name in ("opener", "handler"))
        return f"OpenAhead(depth={self.depth}, {names})"

    def start(self, during: Pass) -> _Waiting:
        """No shard was taken yet."""
        return _Waiting()

    def run(self, shards: Iterator[Any], at: _Waiting, /) -> Iterator[Shard]:
        """Yield one opened shard after the other."""

        def noted() -> Iterator[Shard]:
            yield from list(at.shards)
            for item in shards:
                shard = dict(item) if isinstance(item, dict) else {"url": item}
                at.shards.append(shard)
                yield shard

        with self._ahead(noted()) as streams:
            for stream in self._handled(streams, at):
                shard = at.shards.popleft()
                yield shard if stream is None else {**shard, "stream": stream}

    def _ahead(self, shards: Iterator[Shard]) -> ReadAhead:
        if hasattr(self.opener, "open_soon"):
            return _FetchAhead(shards, self.opener.open_soon, self.depth)
        return ReadAhead(
            shards, lambda shard: self.opener(shard["url"]), self.budget_bytes, self.depth, skip=_is_local_shard
        )

    def _handled(self, streams: ReadAhead, at: _Waiting) -> Iterator[Any]:
        while True:
            try:
                yield next(streams)
            except StopIteration:
                return
            except Exception as error:
                shard = at.shards.popleft()
                try:
                    ask_handler(self.handler, error, shard=shard["url"])
                except EndOfStreamError:
                    at.stopped = True
                    return


def _named(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _is_local_shard(shard: Shard) -> bool:
    return is_local(shard["url"]) is not None


class _FetchAhead(ReadAhead):
    """The next shards, fetched into a cache; each is read from there in its turn, by the consumer itself.

    Threads only open: they compare a copy with its origin, or start to fetch.
    """

    def __init__(self, shards: Iterator[Shard], open_soon: Callable[[str], Any], depth: int) -> None:
        super().__init__(shards, open_soon, depth=depth, skip=_is_local_shard)
        self._pool = ThreadPoolExecutor(depth, "webdataset-ahead")
        self._closing = threading.Event()

    def start(self, item: Shard) -> Future[Any]:
        return self._pool.submit(self._open, item["url"])

    def begin(self, ahead: Future[Any]) -> Any:
        opened = ahead.result()
        if hasattr(opened, "begin"):
            opened.begin()
        return opened

    def drop(self, ahead: Future[Any]) -> None:
        if ahead.exception() is None:
            ahead.result().close()

    def close(self) -> None:
        self._closing.set()
        try:
            super().close()
        finally:
            self._pool.shutdown(wait=True)

    def _open(self, url: str) -> Any:
        with abandonable(self._closing):
            return self._opener(url)
