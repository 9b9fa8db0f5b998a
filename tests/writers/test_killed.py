"""A writer that is killed at any moment leaves complete shards and hidden leftovers, and the next run is not disturbed."""

import subprocess
import sys
from pathlib import Path

import pytest

from webdataset.writers import ShardWriter


# Starts some writers one after the other and kills each after it has reported a random number of samples: within a
# sample, at the end of a shard, between two shards.
KILLER = """
import os, random, signal, sys
from webdataset.writers import ShardWriter

def write_forever(folder, report):
    with ShardWriter(f"{folder}/a-%04d.tar", maxcount=5) as sink:
        number = 0
        while True:
            sink.write({"__key__": f"{number:06d}", "bin": os.urandom(1000) * random.choice([1, 10, 400])})
            os.write(report, b".")
            number += 1

folder, rounds = sys.argv[1:]
os.chdir(folder)
rng = random.Random(0)
for round in range(int(rounds)):
    os.mkdir(str(round))
    heard, report = os.pipe()
    child = os.fork()
    if child == 0:
        write_forever(str(round), report)
    os.close(report)
    for _ in range(rng.randrange(40)):
        os.read(heard, 1)
    for _ in range(rng.randrange(20000)):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(heard)
"""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", [20, pytest.param(1000, marks=pytest.mark.long)])
def test_killed_writers_leave_only_complete_shards(tmp_path, is_complete, rounds):
    subprocess.run([sys.executable, "-c", KILLER, str(tmp_path), str(rounds)], check=True, timeout=1000)
    leftovers = 0
    for number in range(rounds):
        folder = tmp_path / str(number)
        visible = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        assert [path.name for path in visible] == [f"a-{shard:04d}.tar" for shard in range(len(visible))]
        assert all(is_complete(path) for path in visible)
        hidden = [path for path in folder.iterdir() if path.name.startswith(".")]
        assert all(path.name.startswith(".a-") and path.suffix != ".tar" for path in hidden)
        leftovers += len(hidden)
        write_again(folder, shards=len(visible) + 1)
        assert not [path for path in folder.iterdir() if path.name.startswith(".")], "the next run clears up"
    assert leftovers > rounds / 4, (
        "too few writers were killed in the middle of a shard for this test to mean something"
    )


def write_again(folder: Path, shards: int):
    with ShardWriter(folder / "a-%04d.tar", maxcount=1) as sink:
        for number in range(shards):
            sink.write({"__key__": str(number), "txt": "again"})
