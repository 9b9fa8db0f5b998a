"""The base of all sources of shards: new items, a count of the shards taken, and passes outside a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from webdataset import config, world
from webdataset.address import as_checkpoint
from webdataset.errors import StateError
from webdataset.flow import Json, Pass, Progress, Recall, Source, count_in, digest, url_as_json, url_from_json


class Taken(Progress):
    """How many shards of which pass were yielded; `origin` is the last one's address."""

    def __init__(self, during: Pass, *, available: int | None = None) -> None:
        self.during = during
        self.taken = 0
        self.available = available
        self._last: str | None = None

    @property
    def origin(self) -> Json:
        """The address of the shard that was yielded last."""
        return None if self._last is None else url_as_json(self._last)

    def take(self, url: str) -> dict[str, Any]:
        """Count a shard and return its item; a source that may yield a shard more than once passes it as `Drawn`."""
        self.taken += 1
        self._last = url
        return {"url": url}

    def save(self) -> Json:
        """Epoch and count, with the number of shards as a check."""
        return {"epoch": self.during.epoch, "taken": self.taken, "shards": self.available}

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on after the shards that were taken."""
        if saved["shards"] != self.available:
            raise StateError(
                f"the checkpoint knows {saved['shards']} shards, the dataset has {self.available}",
                hint="resume with the shards that the checkpoint was written for",
            )
        self.during = replace(self.during, epoch=count_in(saved["epoch"]))
        self.taken = count_in(saved["taken"])


class ShardSource(Source):
    """A source of shards. Outside a pipeline (`iter(source)`) it counts its passes in `epoch`."""

    epoch: int = -1

    def start(self, during: Pass) -> Taken:
        """Nothing taken yet."""
        return Taken(during)

    def recall(self, origin: Json) -> dict[str, Any]:
        """The item of a shard, made again."""
        return {"url": url_from_json(origin)}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.epoch += 1
        during = Pass(seed=config.read("WDS_SEED"), epoch=self.epoch, world=world.current())
        return self.run(iter(()), self.start(during))

    def __call__(self, items: Iterable[Any] = (), /) -> Iterator[dict[str, Any]]:
        """The next pass, outside a pipeline."""
        return iter(self)


def describe(urls: list[str]) -> str:
    """A short text that is different for different lists: ends, number, digest. It contains no secrets.

    >>> describe(["a.tar", "b.tar"])
    "['a.tar', 'b.tar']"
    >>> describe([f"{i}.tar" for i in range(1000)])
    "['0.tar', …, '999.tar' (1000 shards, caf2ea25)]"
    """
    urls = [as_checkpoint(url) for url in urls]  # also, a signed address is another one every day
    if len(urls) <= 3:
        return repr(urls)
    return f"[{urls[0]!r}, …, {urls[-1]!r} ({len(urls)} shards, {digest(*urls) & 0xFFFFFFFF:08x})]"
