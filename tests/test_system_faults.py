"""Every system call of cache, writer, index, download, loader and shard-to-shard job fails in turn (SQLite's way).

After each failure: the right result or a typed error, no hang, no thread or descriptor left, locks released, and the
same work in the same directory succeeds afterwards with the right result.
"""

import errno
import gc
import io
import os
import random
import re
import resource
import signal
import tarfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import webdataset as wds
from webdataset import stores
from webdataset.cache import FileCache, MemoryOpener, ShardCache, download
from webdataset.errors import StoreError, WebDatasetError
from webdataset.index import IndexedShards, read_description
from webdataset.interop import convert
from webdataset.testing import ERRORS, FaultServer, SystemFaults
from webdataset.tools import Options, map_shards, query, repair, sort
from webdataset.writers import ShardWriter
from wids import wids_cleanup, wids_dl


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


def local_copies(folder):
    paths = [folder / f"l-{number}.tar" for number in range(len(DATA))]
    for path, data in zip(paths, DATA, strict=True):
        path.write_bytes(data)
    return [str(path) for path in paths]


def loaded(folder, **settings):
    """With and without an index beside the shards."""
    paths = local_copies(folder)
    keys = [f"{shard}-{number}" for shard in range(3) for number in range(3)]
    for index in (False, str(folder)):
        dataset = wds.WebDataset(paths, index=index, shardshuffle=False, empty_check=False).map(key_of)
        loader = wds.WebLoader(dataset, batch_size=None, **settings)
        try:
            if sorted(loader) != keys:
                return False
        finally:
            loader.close()
            dataset.close()
    return True


def key_of(sample):
    return sample["__key__"]


def loaded_by_threads(folder, urls):
    return loaded(folder, workers="threads", num_workers=2)


def loaded_by_processes(folder, urls):
    pytest.importorskip("torch", reason="torch is not installed")
    return loaded(folder, num_workers=1, multiprocessing_context="fork", timeout=60)


def same(samples):
    return samples


def mapped(folder, urls):
    """A job in two runs: the second finds everything finished."""
    out = folder / "out"
    paths = local_copies(folder)
    reports = [map_shards(same, paths, f"{out}/", description=f"{out}/all.json") for _ in range(2)]
    names = []
    for number in range(3):
        with tarfile.open(out / f"l-{number}.tar") as tar:
            names += tar.getnames()
    left = [path.name for path in out.iterdir() if path.name.endswith((".part", ".tmp"))]
    return (
        names == [f"{shard}-{number}.bin" for shard in range(3) for number in range(3)]
        and not left
        and reports[1].skipped == 3
        and len(read_description(str(out / "all.json")).shards) == 3
    )


def converted(folder, urls):
    """To a format of one file and to one of a folder, and back."""
    keys = []
    (folder / "in.tar").write_bytes(DATA[0])
    for kind, middle in (("beton", "a.beton"), ("mds", "a")):
        for path in folder.glob("*.idx"):
            path.unlink()
        options = Options(force=True)
        convert(str(folder / "in.tar"), str(folder / middle), options, target_format=kind, mapping="bin:bin,__key__:id")
        back = folder / f"{kind}-%d.tar"
        convert(str(folder / middle), str(back), options, source_format=kind, mapping="bin:bin", key="id")
        with tarfile.open(str(back) % 0) as tar:
            keys += tar.getnames()
    return keys == 2 * [f"0-{number}.bin" for number in range(3)]


def sorted_in_runs(folder, urls):
    """With temporary files."""
    sort(local_copies(folder), f"{folder}/s.tar", Options(force=True), by="key", memory=10000)
    with tarfile.open(folder / "s.tar") as tar:
        return tar.getnames() == [f"{shard}-{number}.bin" for shard in range(3) for number in range(3)]


def repaired(folder, urls):
    paths = local_copies(folder)
    for path in paths:
        Path(path).write_bytes(Path(path).read_bytes()[:-1024])
    (folder / "r").mkdir(exist_ok=True)
    found = repair(paths, f"{folder}/r/", force=True)
    assert all(one.output or "the disk" not in one.actions[0].what for one in found), "the shard is not to blame"
    return [one.saved for one in found] == [3, 3, 3] or any(one.output is None for one in found)


def uploaded(folder, urls):
    """Through a temporary file, because a store wants to know the size first."""
    sent = []
    with stores.SpooledUpload(lambda file, size: sent.append(file.read(size))) as upload:
        for _ in range(9):
            upload.write(DATA[0])
    return sent == [9 * DATA[0]]


def in_memory(folder, urls):
    opener = MemoryOpener()
    return all(read(opener(url)) == data for url, data in zip(urls, DATA, strict=True))


WORK = [
    cache_miss, cache_hit, cache_under_a_limit, file_cache, copied, written, looked_up, looked_up_over_http,
    loaded_by_threads, loaded_by_processes, mapped, converted, sorted_in_runs, repaired, uploaded, in_memory,
]  # fmt: skip
# What uses a disk, and what changes it: a disk that is gone, or is read-only from now on, refuses all of it.
CHANGES = {"write", "writev", "pwrite", "fsync", "rename", "replace", "unlink", "link", "mkdir", "utime", "truncate"}
USES = {*CHANGES, "open", "read", "readv", "pread", "preadv", "listdir", "scandir", "stat", "lstat", "fstat", "flock"}


@pytest.fixture(scope="module")
def urls():
    with FaultServer() as server:
        yield [server.add(f"{n}.tar", data) for n, data in enumerate(DATA)]
        stores.close_connections()


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path_factory):
    """Temporary files are in a folder of the test: a disk that is gone keeps them."""
    monkeypatch.setenv("WDS_RETRIES", "0")
    monkeypatch.setattr("webdataset.stores._upload._IN_MEMORY", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("temporary")))
    monkeypatch.setattr("webdataset.cache._memory_cache._MEMORY", str(tmp_path_factory.mktemp("memory")))


def descriptors():
    """Of files; the server's sockets come and go in this process, too."""
    found = []
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(name for name in found if not name.startswith("socket:"))


def left_open(before):
    """After torch's queues have ended: they are in reference cycles, and threads of theirs close the pipes."""
    for _ in range(250):
        left = [name for name in descriptors() if name not in before]
        if not left:
            break
        gc.collect()
        time.sleep(0.02)
    return left


def close_pipes(left):
    """Close pipes that Python leaves open itself where a process cannot be forked (`popen_fork.Popen._launch`)."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if target in left and target.startswith("pipe:"):
                os.close(int(name))
    return [name for name in left if not name.startswith("pipe:")]


def ours():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("webdataset")]


def attempt(work, folder, urls, number, error, *, lasting):
    """One run with one fault, and one without."""
    case = f"{work.__name__}: call {number} fails with {errno.errorcode[error]}, later ones: {lasting}"
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
    left = left_open(before)
    if faults.struck in {"pipe", "fork"}:
        left = close_pipes(left)
    assert not left, f"{case} ({faults.struck}): descriptors are left: {left}"
    if "unlink" in str(lasting):  # what could not be removed: another process does, because this one lives
        for path in folder.rglob(".*.part"):
            path.unlink()
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


# torch's iterator complains in its destructor when its constructor has failed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("work", WORK)
def test_a_sample_of_the_calls_fails(work, tmp_path, urls):
    calls = calls_of(work, tmp_path / "count", urls)
    assert calls > 5
    rng = random.Random(work.__name__)
    some = 4 if work is loaded_by_processes else len(ERRORS) + 1
    for turn, number in enumerate(sorted(rng.sample(range(1, calls + 1), min(calls, some)))):
        error = ERRORS[turn % len(ERRORS)]
        attempt(work, tmp_path / f"{number}", urls, number, error, lasting=bool(turn % 2))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("error", "refused"), [(errno.EROFS, CHANGES), (errno.ESTALE, USES)], ids=["read-only", "gone"]
)
@pytest.mark.parametrize("work", [work for work in WORK if work is not loaded_by_processes])
def test_the_disk_is_gone_from_some_call_on(work, error, refused, tmp_path, urls):
    calls = calls_of(work, tmp_path / "count", urls)
    for number in sorted(random.Random(work.__name__).sample(range(1, calls + 1), 4)):
        attempt(work, tmp_path / f"{number}", urls, number, error, lasting=refused)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("work", WORK)
def test_every_call_fails(work, error, lasting, tmp_path, urls):
    calls_of(work, tmp_path / "count", urls)  # what a process keeps from its first use on is no leak
    number = 1
    while attempt(work, tmp_path / f"{number}", urls, number, error, lasting=lasting):
        number += 1
    assert number > 5


def recorded(folder, urls):
    return [list(wds.DBCache(str(folder / "d"))(iter("abc"))) for _ in range(2)] == [["a", "b", "c"]] * 2


def recorded_by_lmdb(folder, urls):
    pytest.importorskip("lmdb")
    return [list(wds.LMDBCached(str(folder / "d"), map_size=1e7)(iter("abc"))) for _ in range(2)] == [[*"abc"]] * 2


def copied_by_wids(folder, urls):
    return Path(wids_dl.download_file(urls[0], str(folder / "copy.tar"))).read_bytes() == DATA[0]


def locked_by_wids(folder, urls):
    lock = wids_cleanup.ExclusiveLock(str(folder / "a.lock"))
    locked = lock.try_lock() and not lock.try_lock()
    lock.release_lock()
    return locked


LOCKERS = [cache_miss, written, mapped, recorded, recorded_by_lmdb, copied_by_wids, locked_by_wids]


def files_of(folder):
    """The files; the name of a ledger depends on the folder."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {re.sub(r"\.wds-\w+", "ledger", name) for name in names}


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("work", LOCKERS)
def test_where_locks_fail_no_lock_file_is_left(work, error, tmp_path, urls):
    usual, failed = tmp_path / "usual", tmp_path / "failed"
    for folder in (usual, failed):
        folder.mkdir()
    assert work(usual, urls)
    faults = SystemFaults(1, error, lasting=True, only={"flock"})
    before = descriptors()
    with faults, suppress(WebDatasetError):
        assert work(failed, urls)
    assert faults.struck == "flock"
    assert not [name for name in files_of(failed) if ".lock" in name or "ledger" in name]
    assert not left_open(before)
    assert work(failed, urls), "locks work again"
    assert files_of(failed) <= files_of(usual)


def test_where_a_lock_fails_that_of_another_process_stays(tmp_path):
    """Without its file two processes could hold the same lock."""
    path = str(tmp_path / "a.lock")
    held = stores.lock_file(path)
    with SystemFaults(1, errno.EIO, lasting=True, only={"flock"}), pytest.raises(OSError, match="error"):
        stores.lock_file(path)
    assert stores.lock_file(path) is None
    held.release()


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP], ids=errno.errorcode.get)
@pytest.mark.parametrize("work", [cache_miss, written])
def test_a_file_system_without_locks_is_no_reason_to_fail(work, error, tmp_path, urls):
    """Lustre without `-o flock` answers ENOSYS, NFS without a lock service ENOLCK."""
    with SystemFaults(1, error, lasting=True, only={"flock"}) as faults:
        assert work(tmp_path, urls)
    assert faults.struck == "flock"


def tar_writer(path):
    with wds.TarWriter(path) as sink:
        for number in range(50):
            sink.write({"__key__": f"{number}", "bin": bytes(5000)})


def one_write(path):
    stores.write_bytes(path, b"x")


def conversion(path):
    convert("memory://faults/in.tar", path, Options(force=True), target_format="tfrecord", mapping="bin:bin")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("work", [tar_writer, one_write, conversion])
def test_a_device_that_is_full(work):
    stores.write_bytes("memory://faults/in.tar", DATA[0])
    before = descriptors()
    with pytest.raises(StoreError, match="the disk is full – /dev/full"):
        work("/dev/full")
    assert not left_open(before)


def through_a_pipe(folder, urls):
    """Reads and writes of a pipe end early."""
    os.mkfifo(folder / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((folder / "pipe").read_bytes()))
    reader.start()
    for path in (folder / "pipe", folder / "a.tar"):
        tar_writer(str(path))
    reader.join()
    return found == [(folder / "a.tar").read_bytes()]


@pytest.mark.parametrize("work", [cache_miss, copied, written, looked_up_over_http, loaded_by_threads, through_a_pipe])
def test_signals_that_interrupt_calls(work, tmp_path, urls):
    """A handler that returns: Python repeats the call, and short reads and writes go on."""
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        assert work(tmp_path, urls)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen


def test_thirty_two_descriptors(tmp_path, urls):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 32, hard))
    try:
        for work in (cache_under_a_limit, looked_up, written, loaded_by_threads):
            (tmp_path / work.__name__).mkdir()
            assert work(tmp_path / work.__name__, urls)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def recorded_in_sqlite(folder):
    return [len(list(wds.DBCache(str(folder / "d"))(range(1000)))) for _ in range(2)] == [1000] * 2


def recorded_in_lmdb(folder):
    pytest.importorskip("lmdb")
    return [len(list(wds.LMDBCached(str(folder / "d"), map_size=1e7)(range(1000)))) for _ in range(2)] == [1000] * 2


def queried(folder):
    pytest.importorskip("duckdb")
    with query("select key from samples", f"{folder}/l-{{0..2}}.tar") as answer:
        return len(list(answer.keys())) == 9


@pytest.mark.parametrize("work", [recorded_in_sqlite, recorded_in_lmdb, queried])
def test_databases_whose_disk_is_full_at_any_size(work, tmp_path, monkeypatch):
    """Their libraries write themselves; a limit of the size of files is like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    failures = 0
    for size in (0, 1000, 9000, 20000, 30000, 40000, 60000, 1 << 20):
        folder = make(tmp_path / f"{size}")
        monkeypatch.setattr("tempfile.tempdir", str(make(folder / "temporary")))
        local_copies(folder)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            assert work(folder)
        except StoreError:
            failures += 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert work(folder), "the next run"
    assert 0 < failures < 8


def make(folder):
    folder.mkdir()
    return folder
