"""Shards in, opened shards out, the next ones already on their way: a stage before the reader of samples."""

from __future__ import annotations

import io
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webdataset.errors import SpecError
from webdataset.flow import Json, Pass, Progress, Recall, Resumable, url_as_json, url_from_json
from webdataset.handlers import Handler, reraise_exception
from webdataset.stores import ReadAhead, is_local, open_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Shard = dict[str, Any]


class _Waiting(Progress):
    """The shards that were taken from upstream and not yet handed on; read again from their start on resume."""

    def __init__(self) -> None:
        self.shards: deque[Shard] = deque()

    def save(self) -> Json:
        return [{**shard, "url": url_as_json(shard["url"])} for shard in self.shards]

    def load(self, saved: Json, recall: Recall) -> None:
        self.shards = deque({**shard, "url": url_from_json(shard["url"])} for shard in saved)


@dataclass(frozen=True)
class OpenAhead(Resumable):
    """Opens shards and reads the next ones ahead by threads; their order is unchanged.

    >>> from webdataset import stores
    >>> for name in "ab":
    ...     with stores.open_write(f"memory://open-ahead/{name}") as stream:
    ...         _ = stream.write(name.encode())
    >>> stage = OpenAhead(depth=2)
    >>> [shard["stream"].read() for shard in stage([{"url": f"memory://open-ahead/{name}"} for name in "ab"])]
    [b'a', b'b']

    Local files are left to the reader, which maps them.

    Args:
        depth: How many shards are read at once, the one in use included.
        budget_bytes: How many bytes may wait in memory, over all of them.
        opener: Opens one address.
        handler: What to do with a shard that cannot be opened.
    """

    depth: int = 4
    budget_bytes: int = 256 << 20
    opener: Callable[[str], Any] = open_read
    handler: Handler = reraise_exception

    def __post_init__(self) -> None:
        if self.depth < 1 or self.budget_bytes < 1:
            raise SpecError(f"{self} is not possible", hint="depth and budget_bytes must be at least 1")

    def start(self, during: Pass) -> _Waiting:
        """Nothing is under way."""
        return _Waiting()

    def run(self, shards: Iterator[Any], at: _Waiting, /) -> Iterator[Shard]:
        """Hand on one opened shard after the other."""

        def noted() -> Iterator[Shard]:
            yield from list(at.shards)
            for item in shards:
                shard = dict(item) if isinstance(item, dict) else {"url": item}
                at.shards.append(shard)
                yield shard

        with ReadAhead(noted(), self._open, self.budget_bytes, self.depth) as streams:
            for stream in self._handled(streams, at):
                shard = at.shards.popleft()
                yield shard if is_local(shard["url"]) else {**shard, "stream": stream}

    def _open(self, shard: Shard) -> Any:
        # A local file is opened by the reader itself; here it only takes its turn.
        return io.BytesIO() if is_local(shard["url"]) else self.opener(shard["url"])

    def _handled(self, streams: ReadAhead, at: _Waiting) -> Iterator[Any]:
        while True:
            try:
                yield next(streams)
            except StopIteration:
                return
            except Exception as error:
                at.shards.popleft()
                if not self.handler(error):
                    return
