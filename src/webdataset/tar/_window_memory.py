"""Memory of windows that are not copied: members are views of it, and it is reused after the last view is deleted.

New memory for every window would take three times as long as copying, because of page faults.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from typing import Any

import numpy as np

from webdataset.errors import StoreError

from ._parse_header import BLOCK

_KEPT = 64  # windows without views that are kept for reuse


class _Shown(np.ndarray[Any, Any]):
    """A buffer with a hash, so that views of it can be hashed like views of bytes objects."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class Windows:
    """Windows for one reader after the other.

    >>> windows = Windows(1024)
    >>> window, view = windows.take()
    >>> window[:3], kept = b"abc", view[1:3]
    >>> del view
    >>> windows.take()[0] is window, bytes(kept)
    (False, b'bc')
    >>> del kept
    >>> windows.take()[0] is window
    True

    Args:
        size: the size of a window, the same as for `read_runs`.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._spare: deque[mmap.mmap] = deque(maxlen=_KEPT)

    def take(self) -> tuple[mmap.mmap, memoryview]:
        """Return a window to fill, and a read-only view of it; both, and all views of the view, share its memory."""
        try:
            window = self._spare.pop()
        except IndexError:
            window = new_window(self._size)
        # Every view of a view refers to this array, and not to the view that it is made of.
        shown = np.frombuffer(window, np.uint8).view(_Shown)
        weakref.finalize(shown, self._spare.append, window).atexit = False
        return window, memoryview(shown).toreadonly()  # type: ignore[arg-type]  # a buffer since Python 3.12 only in name


def new_window(size: int) -> mmap.mmap:
    """Return new memory for a window."""
    # A slice of this kind of buffer is a bytes object. Private: a forked child has a copy of its own.
    try:
        return mmap.mmap(-1, size + BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise StoreError(
            f"not enough memory to read {size:,} bytes ({error.strerror})",
            hint="with copy=False a window stays while a view of it exists: keep copies, bytes(view), or fewer samples",
        ) from error
