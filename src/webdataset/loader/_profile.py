"""Run a loader for a while, only to see where its time goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from webdataset.errors import SpecError

from ._loader import WebLoader
from ._move_batching import as_it_is
from ._stats import Stats


def profile(
    loader: Any, *, seconds: float = 5.0, items: int | None = None, step: Callable[[Any], Any] | None = None
) -> Stats:
    """What every stage of a loader or dataset does, measured on a copy of it.

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
        loader: a `WebLoader`, or a dataset that is then read as it is.
        seconds: stop after this time.
        items: stop after this many items.
        step: what is done with every item, in place of a training step.
    """
    if seconds <= 0 or (items is not None and items < 1):
        raise SpecError(f"profile(seconds={seconds}, items={items})", hint="both are more than 0")
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
