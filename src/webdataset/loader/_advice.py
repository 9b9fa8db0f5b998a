"""What to do about a bottleneck."""

from __future__ import annotations

import os

# Handing an item to another process or thread costs up to about this much; and a consumer that is done with it sooner
# than this has done nothing but take it.
_TINY_SECONDS = {"rest": 3e-4, "handing over": 3e-4, "workers": 3e-4, "consumer": 3e-5}


def advise(kind: str, *, workers: int, on_processor: float | None, seconds_per_item: float) -> str:
    """A sentence that says what to change.

    >>> advise("consumer", workers=2, on_processor=None, seconds_per_item=0.1)
    'the loader keeps up with it; fewer workers may do'
    """
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
    "copying": "few large arrays are copied faster than many small ones, and bytes faster than floats made of them",
    "consumer": "the loader keeps up with it; fewer workers may do",
}


def _about_functions(threads: int, on_processor: float | None) -> str:
    cores = os.cpu_count() or 1
    if on_processor is not None and on_processor < 0.5:
        if threads > 1 and on_processor * threads > 0.6:  # together they fill one processor and no more
            return "these functions hold the GIL: use workers='processes', or libraries that let it go"
        return f"these functions mostly wait: more threads, num_workers={2 * max(1, threads)}"
    if threads < cores:
        return _more(threads)
    busy = "have a worker" if on_processor is None else "are at it"
    return f"all {cores} cores {busy}: decode to the size that you need, or do less for each sample"


def _more(workers: int) -> str:
    cores = os.cpu_count() or 1
    return (
        f"more workers: num_workers={cores}" if workers < cores else f"all {cores} cores have a worker: do less in them"
    )
