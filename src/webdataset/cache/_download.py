"""Copying one address to one file."""

from __future__ import annotations

import os
from contextlib import closing

from webdataset.stores import open_read, open_write

from ._download_bar import download_bar


def download(
    url: str | os.PathLike[str], dest: str | os.PathLike[str], chunk_size: int = 1 << 20, verbose: bool = False
) -> None:
    """Copy the object at `url` to `dest`; `dest` appears complete or not at all.

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
        verbose: Show a progress bar; `WDS_PROGRESS=1` does so too.
    """
    with closing(open_read(url)) as source, open_write(dest) as target:
        size = getattr(source, "size", None)
        with download_bar(os.fspath(url), size, shown=verbose or None) as bar:
            while piece := source.read(chunk_size):
                target.write(piece)
                if bar is not None:
                    bar.update(len(piece))
