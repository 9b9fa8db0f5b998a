"""Progress bars."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from webdataset import config
from webdataset.stores import redacted


def download_bar(url: str, total: int | None, *, shown: bool | None = None) -> AbstractContextManager[Any]:
    """A progress bar if `shown` (by default: if `WDS_PROGRESS` is set), else None; `update` adds bytes.

    >>> with download_bar("https://h/a.tar", 100, shown=False) as bar:
    ...     print(bar)
    None
    """
    if not (config.read("WDS_PROGRESS") if shown is None else shown):
        return nullcontext()
    bar: AbstractContextManager[Any] = progress_bar(total=total, unit="B", unit_scale=True, desc=redacted(url)[-40:])
    return bar


def progress_bar(**options: Any) -> Any:
    """A bar of tqdm without its monitor, a thread that never ends.

    >>> with progress_bar(disable=True) as bar:
    ...     _ = bar.update(1)
    """
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg,misc,unused-ignore]  # tqdm has no types
        monitor_interval = 0

    return Bar(**options)
