"""Where each of several ranges begins when they follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def starts_of(counts: Any) -> NDArray[np.int64]:
    """The sum of all counts before each one, and at the end the sum of all.

    >>> starts_of([3, 0, 2])
    array([0, 3, 3, 5])
    """
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
