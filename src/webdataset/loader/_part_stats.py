"""From the numbers of a meter to the parts of a loader."""

from __future__ import annotations

from collections.abc import Iterator

from ._meter import Meter
from ._stage_timer import FUNCTION, ON_PROCESSOR, READER, STREAM
from ._stats import Part, Stats


def thread_stats(meter: Meter, threads: int) -> Stats:
    """The stats of a loader that uses threads, or none."""
    seconds = meter.elapsed
    lane = "thread" if threads else "process"
    functions = meter.seconds["functions"]
    worked = meter.seconds["ahead"] - meter.seconds["wait for functions"] if threads else meter.seconds["wait"]
    parts = list(_stages(meter, seconds, threads, lane)) or list(_coarse(meter, seconds, threads, worked, lane))
    return Stats(
        meter.counts["items"],
        seconds,
        (*parts, *_takers(meter, seconds, lane if not threads else "consumer")),
        meter.mean("queue") if threads else None,
        threads,
        meter.seconds["functions on a processor"] / functions if functions else None,
        meter.moved,
        meter.skipped,
    )


def process_stats(meter: Meter, workers: int) -> Stats:
    """The stats of a loader that uses worker processes."""
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
    takers = list(_takers(meter, seconds, "consumer"))
    between = max(0.0, 1 - sum(part.share for part in takers) - busy / alive)
    handing = Part("handing over", "handing over", "between", meter.counts["items"], between * seconds, between)
    return Stats(
        meter.counts["items"],
        seconds,
        (*parts, handing, *takers),
        None,
        workers,
        moved=meter.moved,
        skipped=meter.skipped,
    )


def _coarse(meter: Meter, seconds: float, threads: int, worked: float, lane: str) -> Iterator[Part]:
    items = meter.counts["functions"] or meter.counts["items"]
    read = meter.seconds["read"]
    if read:
        yield _part("reading", "reading", lane, items, read, seconds)
    if threads and meter.counts["functions"]:
        kind, where, capacity = _of_functions(meter, seconds, threads, lane)
        yield _part("functions", kind, where, items, meter.seconds["functions"], capacity)
    name = "shuffling, batching" if read else "dataset"
    yield _part(name, "rest" if read else "workers", lane, items, max(0.0, worked - read), seconds)


def _stages(meter: Meter, seconds: float, threads: int, lane: str) -> Iterator[Part]:
    """A part for every stage, when they were watched. The time of a stream includes that of the one before it."""
    before = 0.0
    for key in sorted(meter.counts, key=_order):
        if key.startswith((READER, STREAM)):
            name, spent = key.removeprefix(READER).removeprefix(STREAM), meter.seconds[key]
            if not name.endswith(" functions"):
                kind = "reading" if key.startswith(READER) else "stage" if lane == "workers" else "rest"
                yield _part(name, kind, lane, meter.counts[key], max(0.0, spent - before), seconds)
            before = spent
        elif key.startswith(FUNCTION):
            kind, where, capacity = _of_functions(meter, seconds, threads, lane)
            spent = meter.seconds[ON_PROCESSOR + key] if _fill_one_processor(meter, threads) else meter.seconds[key]
            yield _part(key.removeprefix(FUNCTION), kind, where, meter.counts[key], spent, capacity)


def _fill_one_processor(meter: Meter, threads: int) -> bool:
    """Whether the functions wait for each other's interpreter lock: then the one that holds it is slow, not the others.

    Together they use about one processor, though several threads run them for all of the time.
    """
    spent, ran = meter.seconds["functions"], meter.seconds["functions on a processor"]
    return threads > 1 and 0 < ran < 0.75 * spent and ran > 0.6 * spent / threads


def _of_functions(meter: Meter, seconds: float, threads: int, lane: str) -> tuple[str, str, float]:
    """Kind, lane and capacity of functions: of the pool, or of the thread that asks if it is busier with them."""
    if not threads:
        return "functions", lane, seconds
    spent, here = meter.seconds["functions"], meter.seconds["functions in place"]
    elsewhere = spent - here
    if here > elsewhere / threads:
        return "rest", lane, seconds * spent / here
    return "functions", "pool", threads * seconds * (spent / elsewhere if elsewhere > 0 else 1.0)


def _order(key: str) -> int:
    """Stages in the order of the pipeline; other names first, in the order in which they came."""
    number = key.removeprefix(READER).removeprefix(STREAM).removeprefix(FUNCTION).split(" ")[0]
    return int(number) if number.isdigit() else -1


def _takers(meter: Meter, seconds: float, lane: str) -> Iterator[Part]:
    """What happens where the items are taken: the copy to a device, if there is one, and the program's own work."""
    copying = meter.seconds["copying"]
    if meter.counts["copying"]:
        yield _part("copying to the device", "copying", lane, meter.counts["copying"], copying, seconds)
    spent = max(0.0, seconds - meter.seconds["wait"] - copying)
    yield _part("consumer", "consumer", lane, meter.counts["items"], spent, seconds)


def _part(name: str, kind: str, lane: str, items: int, spent: float, capacity: float) -> Part:
    return Part(name, kind, lane, items, spent, spent / capacity if capacity > 0 else 0.0)
