import dataclasses
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import pytest
from torch.utils.data import DataLoader

import webdataset as wds
from tests.cache.shards import read
from webdataset import stores
from webdataset.cache import MemoryOpener
from webdataset.errors import ShardNotFound
from webdataset.testing import make_shard

SAMPLES = [{"__key__": f"{number:03}", "txt": f"text {number}" * 100} for number in range(20)]


@pytest.fixture
def shard():
    url = "memory://in-memory/a.tar"
    make_shard(url, SAMPLES)
    return url


class Counting:
    """An opener that remembers, across processes, how often it was asked."""

    def __init__(self, path):
        self.path = path

    def __call__(self, url, *, start=0):
        with open(self.path, "a") as log:
            log.write(f"{url}\n")
        return stores.open_read(url, start=start)


def test_a_shard_is_read_once_and_the_same(shard, tmp_path):
    opener = MemoryOpener(Counting(tmp_path / "log"))
    with stores.open_read(shard) as stream:
        expected = stream.read()
    for start in (0, 1, 512, len(expected), len(expected) + 5):
        with opener(shard, start=start) as stream:
            assert stream.read(10) + stream.read() == expected[start:]
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_worker_processes_share_what_one_of_them_has_read(shard, tmp_path):
    dataset = wds.WebDataset(shard, in_memory=True, workersplitter=None).decode()
    reader = dataset.pipeline.index(next(s for s in dataset.pipeline if "ReadSamples" in type(s).__name__))
    dataset.pipeline[reader] = dataclasses.replace(
        dataset.pipeline[reader], opener=MemoryOpener(Counting(tmp_path / "log"))
    )
    # Forked: the shard is in the memory of this process.
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    for _ in range(2):
        assert sorted(sample["__key__"] for sample in loader) == sorted(s["__key__"] for s in SAMPLES * 2)
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_many_threads_read_it_once(shard, tmp_path):
    opener = MemoryOpener(Counting(tmp_path / "log"))
    found = []
    threads = [threading.Thread(target=lambda: found.append(read(opener(shard)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_a_worker_that_is_forked_while_a_shard_is_being_read_does_not_wait_for_that(shard):
    other = make_shard("memory://in-memory/other.tar", SAMPLES)
    begun, go_on = threading.Event(), threading.Event()

    def slow(url, *, start=0):
        if url == shard:
            begun.set()
            go_on.wait()
        return stores.open_read(url, start=start)

    opener = MemoryOpener(slow)
    reading = threading.Thread(target=lambda: read(opener(shard)))
    reading.start()
    begun.wait()
    worker = multiprocessing.get_context("fork").Process(target=lambda: read(opener(other)))
    worker.start()
    worker.join(20)
    code = worker.exitcode
    worker.kill()
    worker.join()
    go_on.set()
    reading.join()
    assert code == 0


def test_local_files_are_read_where_they_are(tmp_path):
    path = tmp_path / "a.tar"
    make_shard(str(path), SAMPLES)
    assert [s["__key__"] for s in wds.WebDataset(str(path), in_memory=True)] == [s["__key__"] for s in SAMPLES]


def test_a_failure_is_not_kept(tmp_path):
    opener = MemoryOpener()
    late = f"memory://in-memory/{tmp_path.name}.tar"
    with pytest.raises(ShardNotFound):
        opener(late)
    make_shard(late, SAMPLES)
    assert read(opener(late))


def test_what_does_not_fit_into_memory_is_read_from_its_store(shard, monkeypatch):
    monkeypatch.setattr("webdataset.cache._memory_cache._SHARE", 0)
    with stores.open_read(shard) as stream, MemoryOpener()(shard) as found:
        assert found.read() == stream.read()


PROGRAM = """
import os, sys
from webdataset import stores
from webdataset.cache import MemoryOpener
with stores.open_write("memory://a.tar") as stream:
    stream.write(bytes(10_000))
opener = MemoryOpener()
opener("memory://a.tar").read()
print(opener._folder, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_the_memory_is_given_back(end):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, text=True, **pipes) as user:
        folder = user.stdout.readline().strip()
        assert os.path.isdir(folder)
        user.kill() if end == "kill" else user.stdin.write("\n")
    if end == "kill":
        opener = MemoryOpener()  # the next program
        assert os.path.isdir(opener._folder)
    assert not os.path.exists(folder)


def test_a_copy_starts_empty_and_an_empty_shard_is_one(shard):
    opener = pickle.loads(pickle.dumps(MemoryOpener()))
    with stores.open_write("memory://in-memory/empty.tar"):
        pass
    assert read(opener("memory://in-memory/empty.tar")) == b""
