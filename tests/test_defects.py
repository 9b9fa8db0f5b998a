"""Every defect of the public library that we know of has a test whose name carries its number: `test_D07_…`."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
KNOWN = range(1, 61)


def test_names():
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield path, node.name


test_names.__test__ = False


def numbers():
    return {int(number) for _, name in test_names() for number in re.findall(r"(?<=_)D(\d+)(?=_)", name)}


def test_every_defect_has_a_test():
    assert sorted(set(KNOWN) - numbers()) == []


def test_no_test_carries_a_number_that_means_nothing():
    assert numbers() <= set(KNOWN)
