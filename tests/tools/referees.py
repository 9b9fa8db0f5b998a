"""Other readers, each in an interpreter that has it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def interpreter(module):
    """A Python that can import `module`: this one, or that of WDS_REFEREE_PYTHON."""
    for python in filter(None, (sys.executable, os.environ.get("WDS_REFEREE_PYTHON"))):
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    pytest.skip(f"{module} is not installed here; WDS_REFEREE_PYTHON may name a Python that has it")


def program(name):
    """A program for such an interpreter, in a folder without modules that it could import by mistake."""
    return Path(__file__).with_name("programs") / name
