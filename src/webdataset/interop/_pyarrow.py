"""The optional package pyarrow, with its parquet module."""

from __future__ import annotations

from typing import Any

from webdataset.errors import MissingDependency


def require_pyarrow() -> Any:
    """The package pyarrow."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependency("pyarrow", extra="parquet", why="to read and write parquet") from error
    return pa
