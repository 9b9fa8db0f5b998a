import subprocess
import sys

from webdataset.shards import make_seed, pytorch_worker_info, pytorch_worker_seed
from webdataset.world import World, pretend


def test_the_same_in_every_process():
    program = "from webdataset.shards import make_seed; print(make_seed('a', 1, b'x', None))"
    env = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "77"}
    out = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True).stdout
    assert int(out) == make_seed("a", 1, b"x", None) < 2**31
    assert make_seed("a", "b") != make_seed("ab") != make_seed("b", "a")


def test_worker_numbers():
    with pretend(World(rank=3, ranks=4, worker=1, workers=2)):
        assert pytorch_worker_info() == (3, 4, 1, 2) and pytorch_worker_seed() == 3001
