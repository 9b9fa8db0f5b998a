"""Every system call of cache, writer, index and download fails in turn (SQLite's way).

After each failure: the right result or a typed error, no hang, no thread or descriptor left, locks released, and the
same work in the same directory succeeds afterwards with the right result.
"""

import errno
import io
import os
import random
import tarfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from webdataset import stores
from webdataset.cache import FileCache, ShardCache, download
from webdataset.errors import WebDatasetError
from webdataset.index import IndexedShards
from webdataset.testing import ERRORS, FaultServer, SystemFaults
from webdataset.writers import ShardWriter


def shard(seed, samples=3, size=3000):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number in range(samples):
            info = tarfile.TarInfo(f"{seed}-{number}.bin")
            info.size = size
            tar.addfile(info, io.BytesIO(random.Random(seed * 100 + number).randbytes(size)))
    return out.getvalue()


DATA = [shard(seed) for seed in range(3)]
OVERHEAD = len(DATA[0]) + 100


def read(stream):
    with stream:
        return stream.read()


def cache_miss(folder, urls):
    return read(ShardCache(folder / "c").open(urls[0])) == DATA[0]


def cache_hit(folder, urls):
    cache = ShardCache(folder / "c")
    return all(read(cache.open(urls[0])) == DATA[0] for _ in range(2))


def cache_under_a_limit(folder, urls):
    cache = ShardCache(folder / "c", limit=OVERHEAD)
    right = all(read(cache.open(url)) == data for url, data in zip(urls, DATA, strict=True))
    used = sum(path.stat().st_size for path in (folder / "c").rglob("*") if path.suffix in {".tar", ".part"})
    return right and used <= OVERHEAD


def file_cache(folder, urls):
    cache = FileCache(folder / "c")
    found = []
    for opened in cache(urls):
        with opened["stream"] as stream:
            found.append(stream.read() == Path(opened["local_path"]).read_bytes())
    return found == [True] * 3


def copied(folder, urls):
    download(urls[1], folder / "copy.tar")
    return (folder / "copy.tar").read_bytes() == DATA[1]


def written(folder, urls):
    pattern = f"{folder}/w-%d.tar"
    with ShardWriter(pattern, maxcount=2, index=True, description=f"{folder}/all.json") as sink:
        for number in range(4):
            sink.write({"__key__": f"{number}", "bin": bytes(5000)})
    names = sorted(path.name for path in folder.glob("*") if not path.name.startswith("."))
    complete = []
    for number in range(2):
        with tarfile.open(pattern % number) as tar:
            complete.append(tar.getnames())
    return complete == [["0.bin", "1.bin"], ["2.bin", "3.bin"]] and names == [
        "all.json", "w-0.idx", "w-0.tar", "w-1.idx", "w-1.tar",
    ]  # fmt: skip


def looked_up(folder, urls):
    paths = []
    for number, data in enumerate(DATA):
        paths.append(f"{folder}/l-{number}.tar")
        Path(paths[-1]).write_bytes(data)
    with IndexedShards(paths, store_index=True) as samples:
        keys = [samples[number]["__key__"] for number in (0, 4, 8, 1)]
    return keys == ["0-0", "1-1", "2-2", "0-1"]


def looked_up_over_http(folder, urls):
    with IndexedShards(urls[:2], index=str(folder), store_index=True) as samples:
        keys = [sample["__key__"] for sample in samples]
    return keys == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]


WORK = [cache_miss, cache_hit, cache_under_a_limit, file_cache, copied, written, looked_up, looked_up_over_http]


@pytest.fixture(scope="module")
def urls():
    with FaultServer() as server:
        yield [server.add(f"{n}.tar", data) for n, data in enumerate(DATA)]
        stores.close_connections()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setenv("WDS_RETRIES", "0")


def descriptors():
    """Of files; the server's sockets come and go in this process, too."""
    found = []
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(name for name in found if not name.startswith("socket:"))


def ours():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("webdataset")]


def attempt(work, folder, urls, number, error, *, lasting):
    """One run with one fault, and one without."""
    case = f"{work.__name__}: call {number} fails with {errno.errorcode[error]}{', and later ones' if lasting else ''}"
    folder.mkdir()
    stores.close_connections()
    before = descriptors()
    with SystemFaults(number, error, lasting=lasting) as faults:
        try:
            right = work(folder, urls)
        except WebDatasetError as failure:
            assert faults.struck, f"{case}: {failure}"
        except OSError as failure:
            raise AssertionError(f"{case} ({faults.struck}): not a typed error: {failure!r}") from failure
        else:
            assert right, f"{case} ({faults.struck}): wrong result"
    stores.close_connections()
    assert not ours(), f"{case} ({faults.struck}): threads are left: {ours()}"
    left = [name for name in descriptors() if name not in before]
    assert not left, f"{case} ({faults.struck}): descriptors are left: {left}"
    try:
        assert work(folder, urls), f"{case} ({faults.struck}): the next run has a wrong result"
    except WebDatasetError as failure:
        raise AssertionError(f"{case} ({faults.struck}): the next run fails: {failure}") from failure
    return faults.struck is not None


def calls_of(work, folder, urls):
    folder.mkdir()
    stores.close_connections()
    with SystemFaults(0) as faults:
        assert work(folder, urls)
    return faults.calls


@pytest.mark.parametrize("work", WORK)
def test_a_sample_of_the_calls_fails(work, tmp_path, urls):
    calls = calls_of(work, tmp_path / "count", urls)
    assert calls > 5
    rng = random.Random(work.__name__)
    for turn, number in enumerate(sorted(rng.sample(range(1, calls + 1), min(calls, 12)))):
        error = ERRORS[turn % len(ERRORS)]
        attempt(work, tmp_path / f"{number}", urls, number, error, lasting=bool(turn % 2))


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("work", WORK)
def test_every_call_fails(work, error, lasting, tmp_path, urls):
    number = 1
    while attempt(work, tmp_path / f"{number}", urls, number, error, lasting=lasting):
        number += 1
    assert number > 5
