"""Settings for the tests of training."""

from pathlib import Path

import pytest

collect_ignore_glob = ["programs/*"]  # run as programs of their own, with arguments


def pytest_collection_modifyitems(items):
    """Real processes, sockets and browsers: minutes on a busy machine."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.long)
