"""What is shipped: wheels that can be built again byte for byte, a bill of materials, and an API that loses no name unannounced."""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "release" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(folder, epoch):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def built(folder, process):
    output, _ = process.communicate()
    assert process.returncode == 0, output.decode()
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_wheels_that_are_built_twice_are_byte_identical(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    started = [build(folder, 1_700_000_000) for folder in folders]
    first, second = map(built, folders, started)
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()
    with zipfile.ZipFile(first) as wheel:
        names = wheel.namelist()
    assert "webdataset/py.typed" in names
    assert any(re.search(r"dist-info/sboms/webdataset\.cdx\.json$", name) for name in names)
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "docs")) or "__pycache__" in name]


def test_the_bill_of_materials_is_up_to_date():
    """`python release/sbom.py` writes it anew."""
    sbom = load("sbom")
    assert sbom.STORED.read_text() == sbom.text()


def test_the_groups_and_extras_name_what_is_pinned():
    project = PROJECT["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    groups = (entry for entry in chain.from_iterable(PROJECT["dependency-groups"].values()) if isinstance(entry, str))
    named = {distribution(line) for line in chain(project["dependencies"], extras, groups, ["hatchling"])}
    pinned = (ROOT / "requirements").glob("*.txt")
    lines = (line for path in pinned for line in path.read_text().splitlines() if re.match(r"\w", line))
    assert {distribution(line) for line in lines} <= named


def distribution(requirement):
    """The name of a package, as all installers compare it."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-").replace(".", "-")


def test_the_readme_names_every_extra():
    install = (ROOT / "README.md").read_text().split("## Install")[1].split("## ")[0]
    named = set(re.findall(r"\w+", install))
    assert set(PROJECT["project"]["optional-dependencies"]) - named == set()


def test_versions_agree():
    version = PROJECT["project"]["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_change_fragments_have_a_kind():
    kinds = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    for path in (ROOT / "changes").iterdir():
        if path.name != "README.md":
            assert re.fullmatch(rf"[+\w-]+\.({'|'.join(kinds)})\.md", path.name), path.name


def test_a_removed_name_needs_a_changelog_line():
    pytest.importorskip("griffe", reason="griffe reads the API: requirements/test.txt")
    snapshot = load("api_snapshot")
    stored = json.loads(snapshot.STORED.read_text())
    now = snapshot.api()
    assert snapshot.unexplained(snapshot.broken(stored, now), snapshot.removal_notes()) == []
    assert set(stored) <= {*now}, "python release/api_snapshot.py --write"


def test_what_is_lost_is_found():
    pytest.importorskip("griffe", reason="griffe reads the API: requirements/test.txt")
    snapshot = load("api_snapshot")
    before = {"f": {"parameters": ["a", "b="]}, "C": {"parameters": [], "methods": {"m": ["x"], "n": []}}, "gone": {}}
    now = {"f": {"parameters": ["a"]}, "C": {"parameters": [], "methods": {"m": ["y"]}}}
    lost = snapshot.broken(before, now)
    assert lost == ["C.m(x)", "C.n", "f(b)", "gone"]
    assert snapshot.unexplained(lost, ["`gone` and `C.n` are gone, `f` lost `b`"]) == ["C.m(x)"]
