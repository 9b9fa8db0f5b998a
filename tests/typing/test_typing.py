"""The types that users see."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"


def test_the_public_names_have_types(tmp_path):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "--cache-dir", str(tmp_path)]
    command += ["--config-file", str(HERE.parents[1] / "pyproject.toml"), str(HERE / "api.py")]
    done = subprocess.run(command, capture_output=True, text=True, env={"MYPYPATH": str(SOURCE), "PATH": ""})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_options_of_decode_are_those_of_decode_image():
    """They are written down twice: as fields, and as the keywords that an editor shows."""
    from dataclasses import fields

    from webdataset.codecs import DecodeImage
    from webdataset.stages import ImageOptions

    assert {field.name for field in fields(DecodeImage)} - {"imagespec", "rng"} == set(ImageOptions.__annotations__)
