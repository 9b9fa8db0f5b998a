"""How a verb that changes shards writes and runs: the options of the user, and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from webdataset.redact import hides_secrets

T = TypeVar("T")
Advance = Callable[[int], None]


@hides_secrets
@dataclass(frozen=True)
class Options:
    """How a verb that changes shards writes and runs.

    >>> Options(count=1000).index
    True

    Attributes:
        count: most samples in a shard of a numbered series.
        size: a shard of a series is full when its fields have at least so many bytes.
        shards: the number of shards of a series, with equally many samples each.
        index: store an index beside each shard.
        description: where the description of all shards goes.
        force: replace outputs that exist.
        dry_run: report what would be done, write nothing.
        seed: seed of everything random.
        workers: worker processes, for outputs that are named after inputs.
        engine: "local", "dask", "ray", or an executor.
        address: of a running Dask or Ray cluster.
        errors: "stop", "skip" or "quarantine": see `map_shards`; "skip" in a stream leaves out what cannot be read.
        retry: try quarantined shards again.
        ledger: the file that lists finished shards.
        post: called with the address of each shard of a series after it is published.
        advance: called with the number of samples, or of shards, since the last call.
    """

    count: int | None = None
    size: float | None = None
    shards: int | None = None
    index: bool = True
    description: str | None = None
    force: bool = False
    dry_run: bool = False
    seed: int = 0
    workers: int = 1
    engine: Any = "local"
    address: str | None = None
    errors: str = "stop"
    retry: bool = False
    ledger: str | None = None
    post: Callable[[str], Any] | None = None
    advance: Advance | None = None


DEFAULTS = Options()


def advancing(items: Iterable[T], advance: Advance | None) -> Iterator[T]:
    """The same items; each moves the progress bar when the next one is taken."""
    for item in items:
        yield item
        if advance is not None:
            advance(1)
