"""Where the time goes: what each part of a loader did, which part the others wait for, and what to do about it.

The parts run in lanes that work at the same time: a thread that reads and batches, a pool, processes, the consumer. The
busiest lane limits the speed of the loader, and the part that takes most of the time of that lane is the bottleneck.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from webdataset.describe import counted
from webdataset.handlers import Skipped
from webdataset.stores import rates

from ._meter import FUNCTION, ON_PROCESSOR, READER, STREAM, Meter
from ._thread_choice import available_processors


@dataclass(frozen=True)
class Part:
    """What one part of the loader did.

    Args:
        name: of a stage, or what the part is for.
        kind: decides about the advice: reading, functions, rest (of a thread), stage (of a worker process), workers,
            handing over, copying, consumer.
        lane: parts of the same lane take turns.
        items: how many items it processed.
        seconds: its working time, summed over its threads or processes.
        share: its part of the time of its lane.
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
        items: how many items were yielded.
        seconds: from the start of the epoch to the last of these items.
        parts: the parts, in the order in which an item passes them.
        queue: how full the queue in front of the consumer was, from 0 to 1.
        workers: how many threads or processes.
        on_processor: the share of the functions' time in which they had a processor; threads only.
        moved: what the stores and the cache did meanwhile, in this process and in the workers: `http.bytes`,
            `http.seconds`, `http.retries`, `cache.hits`, …
        skipped: what handlers left out meanwhile, in this process and in the workers.
        choice: how many threads run the functions of one sample now, and why.
    """

    items: int
    seconds: float
    parts: tuple[Part, ...]
    queue: float | None = None
    workers: int = 0
    on_processor: float | None = None
    moved: Mapping[str, float] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)
    choice: str = ""

    @property
    def rate(self) -> float:
        """Items yielded per second."""
        return self.items / self.seconds if self.seconds > 0 else 0.0

    @property
    def rates(self) -> dict[str, float]:
        """Bytes per second of waiting, for each kind of store."""
        return rates(self.moved)

    @property
    def slowest(self) -> Part | None:
        """The part that the others wait for; None if nothing was measured."""
        lanes: dict[str, float] = {}
        for part in self.parts:
            lanes[part.lane] = lanes.get(part.lane, 0.0) + part.share
        busiest = max(lanes, key=lambda lane: lanes[lane], default=None)
        if busiest is None or not lanes[busiest]:
            return None
        return max((part for part in self.parts if part.lane == busiest), key=lambda part: part.share)

    @property
    def bottleneck(self) -> str:
        """The name of the slowest part."""
        return self.slowest.name if self.slowest is not None else "nothing"

    @property
    def advice(self) -> str:
        """What to change."""
        slowest = self.slowest
        if slowest is None:
            return "nothing has been read yet"
        each = self.seconds / max(1, self.items)
        return _advise(slowest.kind, workers=self.workers, on_processor=self.on_processor, seconds_per_item=each)

    def __str__(self) -> str:
        queue = f"; the queue was {self.queue:.0%} full" if self.queue is not None else ""
        lines = [
            f"{self.items:,} items in {self.seconds:.1f} s: {self.rate:,.1f} a second{queue}",
            f"{'part':<32}{'lane':<10}{'items':>10}{'at most/s':>14}{'busy':>7}",
            *map(str, self.parts),
            *([self.choice] if self.choice else []),
            *_transport(self.moved),
            *_left_out(self.skipped),
            f"bottleneck: {self.bottleneck} – {self.advice}",
        ]
        return "\n".join(line.rstrip() for line in lines)


def _left_out(skipped: Skipped) -> Iterator[str]:
    """Yield a line about what handlers left out, if they left out anything."""
    if skipped.count:
        reasons = ", ".join(f"{count:,} {name}" for name, count in skipped.reasons.items())
        first, shards = skipped.first[0], counted(len(skipped.shards), "shard")
        yield f"skipped: {skipped.count:,} ({reasons}) in {shards}; first: {first.key or first.shard}"


def _transport(moved: Mapping[str, float]) -> Iterator[str]:
    """Yield a line for each kind of store, and one for the cache.

    >>> list(_transport({"http.bytes": 3e6, "http.seconds": 0.5, "http.retries": 2, "cache.hits": 1}))
    ['http: 3.0 MB at 6 MB/s, 2 retries', 'cache: 1 hits, 0 misses']
    """
    for kind, rate in rates(moved).items():
        retries = f", {moved[f'{kind}.retries']:,.0f} retries" if f"{kind}.retries" in moved else ""
        yield f"{kind}: {moved[f'{kind}.bytes'] / 1e6:,.1f} MB at {rate / 1e6:,.0f} MB/s{retries}"
    if "cache.hits" in moved or "cache.misses" in moved:
        yield f"cache: {moved.get('cache.hits', 0):,.0f} hits, {moved.get('cache.misses', 0):,.0f} misses"


def thread_stats(meter: Meter, threads: int | str) -> Stats:
    """Return the stats of a loader that uses threads, or that works in the consumer's thread."""
    threads = available_processors() if isinstance(threads, str) else threads
    seconds = meter.elapsed
    lane = "thread" if threads else "process"
    functions = meter.seconds["functions"]
    elsewhere = meter.seconds["wait for functions"] + meter.seconds["functions in place"]
    worked = meter.seconds["ahead"] - elsewhere if threads else meter.seconds["wait"]
    parts = list(_stages(meter, seconds, threads, lane)) or list(_summary(meter, seconds, threads, worked, lane))
    return Stats(
        meter.counts["items"],
        seconds,
        (*parts, *_consumer_parts(meter, seconds, lane if not threads else "consumer")),
        meter.mean("queue") if threads else None,
        threads,
        meter.seconds["functions on a processor"] / functions if functions else None,
        meter.moved,
        meter.skipped,
        meter.choice or ("no functions of one sample to run, or batches are made by column" if threads else ""),
    )


def process_stats(meter: Meter, workers: int) -> Stats:
    """Return the stats of a loader that uses worker processes."""
    seconds = meter.elapsed
    busy = meter.seconds["busy"] + meter.seconds["packing"]
    alive = max(busy + meter.seconds["idle"], 1e-9)
    parts = list(_stages(meter, alive, 0, "workers"))
    if parts:
        parts.append(
            _part("packing", "handing over", "workers", meter.counts["items"], meter.seconds["packing"], alive)
        )
    else:
        parts.append(_part("workers", "workers", "workers", meter.counts["items"], busy, alive))
    consumer = list(_consumer_parts(meter, seconds, "consumer"))
    between = max(0.0, 1 - sum(part.share for part in consumer) - busy / alive)
    handing = Part("handing over", "handing over", "between", meter.counts["items"], between * seconds, between)
    return Stats(
        meter.counts["items"],
        seconds,
        (*parts, handing, *consumer),
        None,
        workers,
        moved=meter.moved,
        skipped=meter.skipped,
    )


def _summary(meter: Meter, seconds: float, threads: int, worked: float, lane: str) -> Iterator[Part]:
    """Yield the parts that are measured always: reading, all functions together, the rest."""
    on_pool, in_place = meter.counts["functions"], meter.counts["functions in place"]
    items = on_pool + in_place or meter.counts["items"]
    read = meter.seconds["read"]
    if read:
        yield _part("reading", "reading", lane, items, read, seconds)
    if on_pool:
        yield _part("functions", "functions", "pool", on_pool, meter.seconds["functions"], threads * seconds)
    if in_place:
        yield _part("functions in place", "functions", lane, in_place, meter.seconds["functions in place"], seconds)
    name = "shuffling, batching" if read else "dataset"
    yield _part(name, "rest" if read else "workers", lane, items, max(0.0, worked - read), seconds)


def _stages(meter: Meter, seconds: float, threads: int, lane: str) -> Iterator[Part]:
    """Yield a part for every stage, if stages were timed. The time of a stream includes that of the one before it."""
    before = 0.0
    for key in sorted(meter.counts, key=_order):
        if key.startswith((READER, STREAM)):
            name, spent = key.removeprefix(READER).removeprefix(STREAM), meter.seconds[key]
            if not name.endswith(" functions"):
                kind = "reading" if key.startswith(READER) else "stage" if lane == "workers" else "rest"
                yield _part(name, kind, lane, meter.counts[key], max(0.0, spent - before), seconds)
            before = spent
        elif key.startswith(FUNCTION):
            name, where = key.removeprefix(FUNCTION), "pool" if threads else lane
            spent = meter.seconds[ON_PROCESSOR + key] if _fill_one_processor(meter, threads) else meter.seconds[key]
            yield _part(name, "functions", where, meter.counts[key], spent, max(1, threads) * seconds)


def _fill_one_processor(meter: Meter, threads: int) -> bool:
    """Whether the functions wait for the interpreter lock: then the function that holds it is slow, not the others.

    They do if all together use about one processor, though several threads run them all the time.
    """
    spent, ran = meter.seconds["functions"], meter.seconds["functions on a processor"]
    return threads > 1 and 0 < ran < 0.75 * spent and ran > 0.6 * spent / threads


def _order(key: str) -> int:
    """Return the sort key of a name: stages in the order of the pipeline, other names before them."""
    number = key.removeprefix(READER).removeprefix(STREAM).removeprefix(FUNCTION).split(" ")[0]
    return int(number) if number.isdigit() else -1


def _consumer_parts(meter: Meter, seconds: float, lane: str) -> Iterator[Part]:
    """Yield the parts in the consumer's thread: the copy to a device, if there is one, and the program's own work."""
    copying = meter.seconds["copying"]
    if meter.counts["copying"]:
        yield _part("copying to the device", "copying", lane, meter.counts["copying"], copying, seconds)
    spent = max(0.0, seconds - meter.seconds["wait"] - copying)
    yield _part("consumer", "consumer", lane, meter.counts["items"], spent, seconds)


def _part(name: str, kind: str, lane: str, items: int, spent: float, capacity: float) -> Part:
    return Part(name, kind, lane, items, spent, spent / capacity if capacity > 0 else 0.0)


# Passing an item to another process or thread takes about this long; a consumer that is faster did no work with it.
_TINY_SECONDS = {"rest": 3e-4, "handing over": 3e-4, "workers": 3e-4, "consumer": 3e-5}


def _advise(kind: str, *, workers: int, on_processor: float | None, seconds_per_item: float) -> str:
    """Return what to do about a bottleneck."""
    if kind == "functions":
        return _about_functions(workers, on_processor)
    if seconds_per_item < _TINY_SECONDS.get(kind, 0.0):
        return (
            f"an item takes {seconds_per_item * 1e6:.0f} µs, about what it costs to hand it over: "
            "make batches in the dataset, .batched(64), or larger ones"
        )
    return _ADVICE[kind].format(more=_more(workers))


_ADVICE = {
    "reading": "keep the shards closer: cache_dir=…, in_memory=True, or a faster store; processes read several at once",
    "rest": "one thread shuffles and batches: do less there, or use workers='processes'",
    "stage": "{more}",
    "workers": "{more}; wds.profile(loader) tells which stage takes the time",
    "handing over": "neither side is busy: make larger batches in the dataset, and pass batch_size=None",
    "copying": "few large arrays are copied faster than many small ones: copy uint8 and convert it on the device",
    "consumer": "the loader keeps up with it; fewer workers may do",
}


def _about_functions(threads: int, on_processor: float | None) -> str:
    cores = os.cpu_count() or 1
    if on_processor is not None and on_processor < 0.5:
        if threads > 1 and on_processor * threads > 0.6:  # together they fill one processor and no more
            return "these functions hold the GIL: use workers='processes', or libraries that release it"
        return f"these functions mostly wait: more threads, num_workers={2 * max(1, threads)}"
    if threads < cores:
        return _more(threads)
    busy = "have a worker" if on_processor is None else "are busy"
    return f"all {cores} cores {busy}: decode to the size that you need, or do less for each sample"


def _more(workers: int) -> str:
    cores = os.cpu_count() or 1
    return (
        f"more workers: num_workers={cores}" if workers < cores else f"all {cores} cores have a worker: do less in them"
    )
