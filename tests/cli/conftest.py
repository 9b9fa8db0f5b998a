from tests.tools.compiled import compiled_modules  # noqa: F401 - a fixture for all tests of this folder
