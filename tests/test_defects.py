"""Every defect of the public library that we know of has a test whose name carries its number: `test_D07_…`."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
KNOWN = range(1, 61)

# Numbers without a test of their own, each with its reason.
WITHOUT = {19: "a token on a command line: no command is started for hf:// addresses, which have no store yet"}


def test_names():
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield path, node.name


test_names.__test__ = False


def numbers():
    return {int(number) for _, name in test_names() for number in re.findall(r"(?<=_)D(\d+)(?=_)", name)}


def test_every_defect_has_a_test():
    missing = set(KNOWN) - numbers() - set(WITHOUT)
    assert sorted(missing) == []


def test_no_test_carries_a_number_that_means_nothing():
    assert numbers() <= set(KNOWN)


def test_what_is_said_to_be_missing_is_missing():
    assert set(WITHOUT) & numbers() == set()
