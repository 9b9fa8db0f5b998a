"""The folder and the shards of the tests of tools."""

from tests.tools.conftest import here, shards  # noqa: F401
