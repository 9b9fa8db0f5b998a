"""The viewer needs its extra."""

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the viewer needs webdataset[view]")
pytest.importorskip("uvicorn", reason="the viewer needs webdataset[view]")


def pytest_collection_modifyitems(items):
    """Real processes, sockets and browsers: minutes on a busy machine."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.long)
