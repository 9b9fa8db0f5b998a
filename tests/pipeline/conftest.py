"""Shards with indexes beside them."""

import pytest

from tests.pipeline.indexed import uneven_counts, write_shards


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("planned"), uneven_counts())


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Five shards, 31 samples."""
    return write_shards(tmp_path_factory.mktemp("few"), [7, 1, 12, 6, 5])
