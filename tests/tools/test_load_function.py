"""Functions that a command line names."""

import json

import pytest

from webdataset.errors import SpecError
from webdataset.tools import load_function


def test_by_module():
    assert load_function("json:dumps") is json.dumps


def test_by_file_loaded_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loaded_by_its_file.py").write_text("def make():\n    return 1\n")
    function = load_function("loaded_by_its_file.py:make")
    assert function() == 1
    assert load_function(f"{tmp_path}/loaded_by_its_file.py:make") is function


@pytest.mark.parametrize(
    "name", ["json", "json:nothing", "no_such_module:make", "json:__name__", "no_such_file.py:make", "a:b:c", ":", ""]
)
def test_what_names_none(name):
    with pytest.raises(SpecError):
        load_function(name)
