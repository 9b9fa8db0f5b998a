"""Datasets with functions that only their program knows, in worker processes that are spawned.

Programs are run as users run them: from a file, with `-c`, from standard input.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import webdataset

# A program starts up to six interpreters that import torch: 4 to 13 s on a machine of its own, minutes on a busy one.
pytestmark = pytest.mark.timeout(900)

# Every kind of function that pickle cannot send, or cannot send without a file; a class whose instances come back.
PROGRAM = """
import multiprocessing, sys
import torch.utils.data
import webdataset as wds

class Point:
    def __init__(self, x):
        self.x = x

class Wrong(Exception):
    pass

def of_the_program(number):
    return helper(number)

def helper(number):
    return number + 1

def fail(number):
    raise Wrong(number)

def made(addend):
    def inside(number):
        return number + addend
    return inside

def main():
    method = sys.argv[1]
    dataset = wds.DataPipeline(range(3), wds.map(lambda n: helper(n)), wds.map(made(10)), wds.map(of_the_program))
    loaders = [
        wds.WebLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context=method),
        wds.WebLoader(dataset, batch_size=3, collate_fn=lambda batch: [n for n in batch], num_workers=1,
                      worker_init_fn=lambda worker: None, multiprocessing_context=method),
        torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context=method),
    ]
    print([list(loader) for loader in loaders])
    if FILE:
        points = wds.WebLoader(wds.DataPipeline(range(2), wds.map(Point), wds.map(lambda p: p)), batch_size=None,
                               num_workers=1, multiprocessing_context=method)
        print([(type(point) is Point, point.x) for point in points])
        try:
            list(wds.WebLoader(wds.DataPipeline(range(2), wds.map(fail)), batch_size=None, num_workers=1,
                               multiprocessing_context=method))
        except Wrong as error:
            print("Wrong", error)
"""
GUARDED = PROGRAM + '\nif __name__ == "__main__":\n    main()\n'
NUMBERS = "[[12, 13, 14], [[12, 13, 14]], [12, 13, 14]]"
TYPES = "[(True, 0), (True, 1)]\nWrong 0"


def run(text, how, method, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(webdataset.__file__).parents[1])}
    script = tmp_path / "program.py"
    script.write_text(text)
    command, given = {"file": ([str(script)], None), "-c": (["-c", text], None), "stdin": (["-"], text)}[how]
    return subprocess.run(
        [sys.executable, *command, method], input=given, capture_output=True, text=True, env=environment
    )


WAYS = [
    pytest.param("-c", "forkserver"),
    *(
        pytest.param(*way, marks=pytest.mark.long)
        for way in (("file", "spawn"), ("file", "forkserver"), ("-c", "spawn"), ("file", "fork"))
    ),
]


@pytest.mark.parametrize(("how", "method"), WAYS)
def test_functions_of_a_program_reach_spawned_workers(how, method, tmp_path):
    pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    done = run(GUARDED.replace("FILE", str(how == "file")), how, method, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (NUMBERS if how == "-c" else f"{NUMBERS}\n{TYPES}")


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.long)])
def test_a_program_from_standard_input_cannot_start_them(method, tmp_path):
    done = run(GUARDED, "stdin", method, tmp_path)
    assert done.returncode == 1
    assert "read from standard input cannot start worker processes" in done.stderr
    assert "write the program to a file" in done.stderr


def test_a_program_without_a_guard(tmp_path):
    """The worker imports the program, which starts workers: multiprocessing refuses that, and the worker ends."""
    done = run(PROGRAM.replace("FILE", "False") + "\nmain()\n", "file", "spawn", tmp_path)
    assert done.returncode == 1
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]
    assert "out of memory" not in done.stderr


def test_without_cloudpickle_an_error_names_it(tmp_path):
    text = GUARDED.replace("FILE", "False").replace(
        "import multiprocessing", "import sys; sys.modules['cloudpickle'] = None; import multiprocessing"
    )
    done = run(text, "file", "spawn", tmp_path)
    assert done.returncode == 1
    assert "the package 'cloudpickle' is needed to send this dataset to a worker process" in done.stderr
