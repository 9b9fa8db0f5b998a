"""Our results beside those of the public library, which runs as a black box in an environment of its own.

`WEBDATASET_PUBLIC_PYTHON` names the interpreter of an environment where the public library is installed; without it
these tests are skipped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PUBLIC = os.environ.get("WEBDATASET_PUBLIC_PYTHON")
HERE = Path(__file__).parent
SOURCE = Path(__file__).parents[2] / "src"

pytestmark = pytest.mark.skipif(
    not PUBLIC, reason="WEBDATASET_PUBLIC_PYTHON names no interpreter with the public library"
)

# Where we differ on purpose: (case, place in the result) and why.
DOCUMENTED = {
    ("damaged", 3): "D3: an archive that is cut between two members is an error, not a shorter dataset",
}


def results(interpreter, folder, *path):
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (HERE, *path)))}
    command = [interpreter, "-m", "differential", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("differential")
    ours = results(sys.executable, folder / "ours", SOURCE)
    return results(PUBLIC, folder / "public"), ours


def differences(public, ours, place=()):
    """Places where the two are not the same; an error of ours is also every error that theirs is."""
    if public == ours:
        return []
    if isinstance(public, dict) and "raises" in public and isinstance(ours, dict) and "raises" in ours:
        return [] if public["raises"][0] in ours["raises"] else [(place, public, ours)]
    if isinstance(public, dict) and isinstance(ours, dict) and public.keys() == ours.keys():
        return [found for key in public for found in differences(public[key], ours[key], (*place, key))]
    if isinstance(public, list) and isinstance(ours, list) and len(public) == len(ours):
        pairs = enumerate(zip(public, ours, strict=True))
        return [found for number, (a, b) in pairs for found in differences(a, b, (*place, number))]
    return [(place, public, ours)]


def test_the_same_pipelines_have_the_same_results(both):
    public, ours = both
    assert public.keys() == ours.keys()
    found = differences(public, ours)
    assert [difference for difference in found if difference[0][:2] not in DOCUMENTED] == []
    assert {place[:2] for place, _, _ in found} == set(DOCUMENTED), "a documented difference is gone"
    assert len(public) > 20


def test_no_case_failed_as_a_whole(both):
    public, ours = both
    assert [name for name, result in ours.items() if isinstance(result, dict) and "raises" in result] == []
    assert [name for name, result in public.items() if isinstance(result, dict) and "raises" in result] == []
