"""One line that shows how fast a loader goes and what holds it up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from webdataset.errors import SpecError

from ._loader import WebLoader


def progress(loader: Any, *, every: float = 1.0, **bar: Any) -> Iterator[Any]:
    """The items of a loader, with a progress bar on the standard error stream that names the bottleneck.

    >>> loader = WebLoader(range(3), batch_size=None, num_workers=1, workers="threads")
    >>> list(progress(loader, disable=True))
    [0, 1, 2]

    Args:
        loader: what is read; of anything but a `WebLoader` over a pipeline the bar shows the rate alone.
        every: seconds between two looks at where the time goes.
        bar: for `tqdm.tqdm`: total, desc, file, disable, …
    """
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg,misc,unused-ignore]  # tqdm has no types
        monitor_interval = 0  # its monitor is a thread that never ends

    bar = {"unit": " items", "total": len(loader) if _has_length(loader) else None, **bar}
    looked = time.perf_counter()
    with Bar(**bar) as shown:
        for item in loader:
            yield item
            shown.update()
            if time.perf_counter() - looked > every:
                looked = time.perf_counter()
                shown.set_postfix_str(_slowest(loader))


def _slowest(loader: Any) -> str:
    try:
        slowest = loader.stats().slowest if isinstance(loader, WebLoader) else None
    except SpecError:  # its dataset is somebody else's, and not measured
        slowest = None
    return f"slowest: {slowest.name} {slowest.share:.0%}" if slowest is not None else ""


def _has_length(loader: Any) -> bool:
    try:
        len(loader)
    except TypeError:
        return False
    return True
