"""Where the time goes: what each part of a loader did, which of them the others wait for, and what to do about it.

The parts run in lanes that work at the same time: a thread that reads and batches, a pool, processes, the consumer. The
busiest lane decides how fast the whole is, and in it the part that takes most of its time is the bottleneck.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from webdataset.handlers import Skipped
from webdataset.stores import rates

from ._advice import advise


@dataclass(frozen=True)
class Part:
    """What one part of the loader did.

    Args:
        name: of a stage, or what the part is for.
        kind: what to do about it depends on this: reading, functions, rest (of a thread), stage (of a
            worker process), workers, handing over, copying, consumer.
        lane: parts of the same lane take turns.
        items: that it worked on.
        seconds: of work, summed over its threads or processes.
        share: of the time of its lane.
    """

    name: str
    kind: str
    lane: str
    items: int
    seconds: float
    share: float

    @property
    def rate(self) -> float:
        """Items per second of work."""
        return self.items / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        return f"{self.name:<32}{self.lane:<10}{self.items:>10,}{self.rate:>14,.0f}{self.share:>7.0%}"


@dataclass(frozen=True)
class Stats:
    """What a loader did since its epoch began.

    >>> reading = Part("reading", "reading", "thread", items=640, seconds=1.9, share=0.95)
    >>> consumer = Part("consumer", "consumer", "consumer", items=10, seconds=0.1, share=0.05)
    >>> print(Stats(items=10, seconds=2.0, parts=(reading, consumer), queue=0.1))
    10 items in 2.0 s: 5.0 a second; the queue was 10% full
    part                            lane           items    at most/s   busy
    reading                         thread           640          337    95%
    consumer                        consumer          10          100     5%
    bottleneck: reading – ...

    Args:
        items: that were handed on.
        seconds: from the start of the epoch to the last of them.
        parts: in the order of the work.
        queue: how full the queue in front of the consumer was, from 0 to 1.
        workers: how many threads or processes.
        on_processor: the share of the functions' time in which they had a processor; threads only.
        moved: what the stores and the cache did meanwhile, in this process and in the workers: `http.bytes`,
            `http.seconds`, `http.retries`, `cache.hits`, …
        skipped: what handlers left out meanwhile, in this process and in the workers.
    """

    items: int
    seconds: float
    parts: tuple[Part, ...]
    queue: float | None = None
    workers: int = 0
    on_processor: float | None = None
    moved: Mapping[str, float] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)

    @property
    def rate(self) -> float:
        """Items handed on per second."""
        return self.items / self.seconds if self.seconds > 0 else 0.0

    @property
    def rates(self) -> dict[str, float]:
        """Bytes per second of waiting, for each kind of store."""
        return rates(self.moved)

    @property
    def slowest(self) -> Part | None:
        """The part that the others wait for."""
        lanes: dict[str, float] = {}
        for part in self.parts:
            lanes[part.lane] = lanes.get(part.lane, 0.0) + part.share
        busiest = max(lanes, key=lambda lane: lanes[lane], default=None)
        if busiest is None or not lanes[busiest]:
            return None
        return max((part for part in self.parts if part.lane == busiest), key=lambda part: part.share)

    @property
    def bottleneck(self) -> str:
        """Its name."""
        return self.slowest.name if self.slowest is not None else "nothing"

    @property
    def advice(self) -> str:
        """What to change."""
        slowest = self.slowest
        if slowest is None:
            return "nothing has been read yet"
        each = self.seconds / max(1, self.items)
        return advise(slowest.kind, workers=self.workers, on_processor=self.on_processor, seconds_per_item=each)

    def __str__(self) -> str:
        queue = f"; the queue was {self.queue:.0%} full" if self.queue is not None else ""
        lines = [
            f"{self.items:,} items in {self.seconds:.1f} s: {self.rate:,.1f} a second{queue}",
            f"{'part':<32}{'lane':<10}{'items':>10}{'at most/s':>14}{'busy':>7}",
            *map(str, self.parts),
            *_transport(self.moved),
            *_left_out(self.skipped),
            f"bottleneck: {self.bottleneck} – {self.advice}",
        ]
        return "\n".join(line.rstrip() for line in lines)


def _left_out(skipped: Skipped) -> Iterator[str]:
    """A line about what handlers left out, if they did."""
    if skipped.count:
        reasons = ", ".join(f"{count:,} {name}" for name, count in skipped.reasons.items())
        yield f"skipped: {skipped.count:,} ({reasons}) in {len(skipped.shards):,} shards; first: {skipped.first[0].key}"


def _transport(moved: Mapping[str, float]) -> Iterator[str]:
    """A line for each kind of store, and one for the cache.

    >>> list(_transport({"http.bytes": 3e6, "http.seconds": 0.5, "http.retries": 2, "cache.hits": 1}))
    ['http: 3.0 MB at 6 MB/s, 2 retries', 'cache: 1 hits, 0 misses']
    """
    for kind, rate in rates(moved).items():
        retries = f", {moved[f'{kind}.retries']:,.0f} retries" if f"{kind}.retries" in moved else ""
        yield f"{kind}: {moved[f'{kind}.bytes'] / 1e6:,.1f} MB at {rate / 1e6:,.0f} MB/s{retries}"
    if "cache.hits" in moved or "cache.misses" in moved:
        yield f"cache: {moved.get('cache.hits', 0):,.0f} hits, {moved.get('cache.misses', 0):,.0f} misses"
