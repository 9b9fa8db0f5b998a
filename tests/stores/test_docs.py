"""The page about places tells the truth."""

import re
from pathlib import Path

import pytest

from webdataset import config, stores

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "addresses.md"


@pytest.fixture
def page():
    return PAGE.read_text()


def test_every_scheme_has_its_line(page):
    table = page.partition("\n\nA name is just")[0]
    for scheme in set(stores.schemes) - {"", "-", "__default__", "s3a", "azure", "abfs", "abfss", "ssh", "http"}:
        assert re.search(rf"\b{scheme}\b", table), scheme


def test_every_variable_is_there(page):
    elsewhere = {"WDS_SEED", "WDS_SHOW_SEED", "WDS_PYTORCH_WEIGHTS_ONLY", "ALLOW_OBSOLETE"}
    elsewhere |= {"RANK", "WORLD_SIZE", "WORKER", "NUM_WORKERS"}
    about_places = {name for name in config.VARIABLES if name.startswith(("GOPEN_", "HF_", "AIS_", "NETRC", "USE_AIS"))}
    about_places |= {
        "WDS_TIMEOUT",
        "WDS_RETRIES",
        "WDS_HTTP_HEADERS",
        "WDS_CACHE",
        "WDS_CACHE_SIZE",
        "WDS_CACHE_REVALIDATE",
        "WDS_VERBOSE_CACHE",
        "WDS_PROGRESS",
    }
    assert not about_places & elsewhere
    for name in about_places:
        assert name in page, name


def test_the_defaults_are_those_of_the_code(page):
    for name in ("WDS_TIMEOUT", "WDS_RETRIES"):
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert float(row.split("|")[3]) == config.VARIABLES[name].default


def test_the_examples_run(page, monkeypatch):
    monkeypatch.setitem(stores.schemes, "mine", None)  # put back what the first example does
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, namespace)
