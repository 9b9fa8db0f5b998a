"""The optional package pyarrow, with its parquet module."""

from __future__ import annotations

import sys
from typing import Any

from webdataset.optional import require


def require_pyarrow() -> Any:
    """The package pyarrow."""
    require("pyarrow.parquet", extra="parquet", why="to read and write parquet")
    return sys.modules["pyarrow"]
