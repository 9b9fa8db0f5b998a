"""Copying one address to one file."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from webdataset.stores import open_read, open_write, redacted

if TYPE_CHECKING:
    import os


def download(
    url: str | os.PathLike[str], dest: str | os.PathLike[str], chunk_size: int = 1 << 20, verbose: bool = False
) -> None:
    """Copy what is stored at `url` to `dest`; `dest` appears complete or not at all.

    >>> import tempfile
    >>> from webdataset import stores
    >>> with stores.open_write("memory://download/a") as stream:
    ...     _ = stream.write(b"hello")
    >>> target = tempfile.mkdtemp() + "/a"
    >>> download("memory://download/a", target)
    >>> stores.read_range(target, 0, 5)
    b'hello'

    Args:
        url: Any address.
        dest: Any address that can be written to.
        chunk_size: Bytes per step.
        verbose: Show a progress bar.
    """
    with closing(open_read(url)) as source, open_write(dest) as target, ExitStack() as stack:
        bar = stack.enter_context(_bar(url, source)) if verbose else None
        while piece := source.read(chunk_size):
            target.write(piece)
            if bar is not None:
                bar.update(len(piece))


def _bar(url: str | os.PathLike[str], source: Any) -> Any:
    from tqdm import tqdm

    total = getattr(source, "size", None)
    return tqdm(total=total, unit="B", unit_scale=True, desc=redacted(str(url))[-40:])
