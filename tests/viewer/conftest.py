"""The viewer needs its extra."""

import pytest

pytest.importorskip("starlette", reason="the viewer needs webdataset[view]")
pytest.importorskip("uvicorn", reason="the viewer needs webdataset[view]")
