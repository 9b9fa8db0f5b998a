"""Functions that use the module `webdataset` travel to other processes, as Hugging Face, Ray and Dask send them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import webdataset

FUNCTION = """
import sys
import webdataset as wds
import webdataset.filters

def samples(n):
    return list(wds.DataPipeline(range(n), wds.map(lambda x: 2 * x), wds.filters.map(str)))

def nested():
    import webdataset as inside
    return lambda: inside.__version__
"""


@pytest.mark.parametrize("package", ["cloudpickle", "dill"])
def test_a_function_that_uses_the_module(package):
    pytest.importorskip(package, reason=f"{package} is not installed")
    recurse = ", recurse=True" if package == "dill" else ""
    send = f"\nimport {package}\nsys.stdout.buffer.write({package}.dumps((samples, nested(), wds){recurse}))\n"
    receive = f"import sys, {package}\nf, g, wds = {package}.load(sys.stdin.buffer)\nprint(f(3), g(), wds is sys.modules['webdataset'])\n"
    environment = {**os.environ, "PYTHONPATH": str(Path(webdataset.__file__).parents[1])}
    run = lambda text, given: subprocess.run(
        [sys.executable, "-c", text], input=given, capture_output=True, env=environment, timeout=60
    )
    sent = run(FUNCTION + send, None)
    assert sent.returncode == 0, sent.stderr.decode()
    done = run(receive, sent.stdout)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == f"['0', '2', '4'] {webdataset.__version__} True\n"
