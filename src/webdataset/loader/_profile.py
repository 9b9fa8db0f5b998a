"""Two ways to see where the time of a loader goes: `profile` measures every stage, `progress` shows a bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from webdataset.cache import progress_bar
from webdataset.errors import SpecError

from ._loader import WebLoader
from ._move_batching import as_it_is
from ._stats import Stats


def profile(
    loader: Any, *, seconds: float = 5.0, items: int | None = None, step: Callable[[Any], Any] | None = None
) -> Stats:
    """Measure every stage of a loader or dataset, on a copy of it.

    >>> import time
    >>> from webdataset import DataPipeline
    >>> import webdataset as wds
    >>> def slow(number):
    ...     time.sleep(0.01)
    ...     return number
    >>> report = profile(DataPipeline(range(50), wds.map(slow), wds.batched(5, collation_fn=None)))
    >>> report.bottleneck
    '1 Map(slow)'

    Args:
        loader: a `WebLoader`; or a dataset, which is read without a thread or process.
        seconds: stop after this time.
        items: stop after this many items.
        step: called with every item, in place of a training step.
    """
    if seconds <= 0 or (items is not None and items < 1):
        raise SpecError(f"profile(seconds={seconds}, items={items}): expected numbers above 0")
    if not isinstance(loader, WebLoader):
        loader = WebLoader(loader, batch_size=None, collate_fn=as_it_is, workers="threads")
    watched: WebLoader = loader.watched()
    end = time.perf_counter() + seconds
    for number, item in enumerate(watched, 1):
        if step is not None:
            step(item)
        if number == items or time.perf_counter() > end:
            break
    return watched.stats()


def progress(loader: Any, *, every: float = 1.0, **bar: Any) -> Iterator[Any]:
    """Yield the items of a loader, and show a progress bar on standard error that names the bottleneck.

    >>> loader = WebLoader(range(3), batch_size=None, num_workers=1, workers="threads")
    >>> list(progress(loader, disable=True))
    [0, 1, 2]

    Args:
        loader: a `WebLoader` over a pipeline, or any other iterable: then the bar shows the rate alone.
        every: seconds between two updates of the bottleneck.
        bar: arguments of `tqdm.tqdm`: total, desc, file, disable, …
    """
    bar = {"unit": " items", "total": len(loader) if _has_length(loader) else None, **bar}
    updated = time.perf_counter()
    with progress_bar(**bar) as shown:
        for item in loader:
            yield item
            shown.update()
            if time.perf_counter() - updated > every:
                updated = time.perf_counter()
                shown.set_postfix_str(_slowest(loader))


def _slowest(loader: Any) -> str:
    try:
        slowest = loader.stats().slowest if isinstance(loader, WebLoader) else None
    except SpecError:  # its dataset is not a pipeline of ours, so nothing is measured
        slowest = None
    return f"slowest: {slowest.name} {slowest.share:.0%}" if slowest is not None else ""


def _has_length(loader: Any) -> bool:
    try:
        len(loader)
    except TypeError:
        return False
    return True
