"""The room that the cache has: its limit, files that are not its own, disks that are full or closed."""

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from tests.cache.shards import MB, files, notes, read, shard
from webdataset.cache._locks import Locks
from webdataset import stores
from webdataset.cache import ShardCache, url_to_cache_name
from webdataset.errors import AccessDenied, SpecError, StoreError
from webdataset.testing import FaultServer, SystemFaults


def sizes(folder):
    """The size of each file of data."""
    found = {}
    for base, _, names in os.walk(folder):
        for name in names:
            if not name.endswith((".entry", ".claim", ".new", ".lease")):
                try:
                    status = os.stat(os.path.join(base, name))
                except FileNotFoundError:
                    continue
                found[base, name, status.st_ino] = status.st_size
    return found


def used(folder):
    """How much there surely was at one moment: between two looks, each of which takes time."""
    first, second = sizes(folder), sizes(folder)
    return sum(min(first[file], second[file]) for file in first.keys() & second.keys())


def test_D26_a_hard_limit_and_true_lru(folder, server):
    data = [shard(n) for n in range(6)]
    urls = [server.add(f"{n}.tar", data[n]) for n in range(6)]
    size = len(data[0])
    cache = ShardCache(folder, limit=3 * size + 100)
    for n in (0, 1, 2):
        read(cache.open(urls[n]))
    read(cache.open(urls[0]))  # now 1 is the oldest
    read(cache.open(urls[3]))
    assert used(folder) <= cache.limit
    kept = {name.split("-", 1)[1] for name in files(folder)}
    assert kept == {"0.tar", "2.tar", "3.tar"}
    for n in (4, 5, 0, 1):
        assert read(cache.open(urls[n])) == data[n]
        assert used(folder) <= cache.limit


def test_the_limit_counts_what_is_on_its_way(tmp_path):
    data = [shard(n, MB) for n in range(4)]
    size = len(data[0])
    with FaultServer(bandwidth=20 * MB) as server:
        urls = [server.add(f"{n}.tar", data[n]) for n in range(4)]
        cache = ShardCache(tmp_path / "c", limit=2 * size)
        streams = [cache.open(url) for url in urls]
        results, highest = [None] * 4, 0
        threads = [threading.Thread(target=lambda n=n: results.__setitem__(n, read(streams[n]))) for n in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            highest = max(highest, used(tmp_path / "c"))
            time.sleep(0.001)
        assert results == data
        assert highest <= cache.limit
        stores.close_connections()


def test_a_shard_larger_than_the_cache_is_read_past_it(folder, server):
    url = server.add("a.tar", shard(1))
    cache = ShardCache(folder, limit=1000)
    assert read(cache.open(url)) == shard(1)
    assert files(folder) == []
    with pytest.raises(StoreError, match="does not fit"):
        cache.get(url)


def test_a_shard_of_unknown_size_is_limited_too(tmp_path):
    data = shard(1)
    (tmp_path / "a.tar").write_bytes(data)
    url = f"pipe:cat {tmp_path}/a.tar"
    assert read(ShardCache(tmp_path / "c", limit=20 * MB).open(url)) == data
    assert len(files(tmp_path / "c")) == 1
    assert read(ShardCache(tmp_path / "d", limit=1000).open(url)) == data
    assert files(tmp_path / "d") == []


def test_it_never_deletes_what_it_did_not_make(folder, server):
    folder.mkdir()
    (folder / "precious.tar").write_bytes(shard(9, MB))
    (folder / "notes.txt").write_bytes(bytes(MB))
    urls = [server.add(f"{n}.tar", shard(n)) for n in range(5)]
    cache = ShardCache(folder, limit=len(shard(0)) + 10)
    for url in urls:
        read(cache.open(url))
    assert {"precious.tar", "notes.txt"} <= set(files(folder))
    assert len(files(folder)) == 3


def test_a_file_that_was_there_before_is_used_and_kept(folder, server):
    folder.mkdir()
    (folder / "a.tar").write_bytes(shard(9))
    url = server.add("a.tar", shard(1))
    cache = ShardCache(folder, url_to_name=url_to_cache_name, limit=10)
    assert read(cache.open(url)) == shard(9)
    assert server.sent("a.tar") == 0
    (folder / "b.tar").write_bytes(b"no tar")
    with pytest.raises(SpecError, match="not a tar archive, and the cache did not make it"):
        cache.open(server.add("b.tar", shard(1)))
    assert files(folder) == ["a.tar", "b.tar"]


def test_a_full_disk(tmp_path, server, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    url = server.add("a.tar", shard(1))
    monkeypatch.setattr("webdataset.cache._fetch_shard.os.write", full)
    with pytest.raises(StoreError, match="disk of the shard cache is full"):
        ShardCache(tmp_path / "c").open(url)
    assert not notes(tmp_path / "c", ".part")


def test_a_directory_that_cannot_be_used(tmp_path, server):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AccessDenied, match="cache directory cannot be used"):
        ShardCache(tmp_path / "file").open(server.add("a.tar", shard(1)))


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory(tmp_path, server):
    (tmp_path / "c").mkdir(mode=0o555)
    with pytest.raises(AccessDenied, match="cache directory cannot be used"):
        ShardCache(tmp_path / "c").open(server.add("a.tar", shard(1)))


def test_a_read_only_directory_serves_what_it_has(tmp_path, server, monkeypatch):
    urls = [server.add(f"{number}.tar", shard(number)) for number in range(2)]
    read(ShardCache(tmp_path / "c").open(urls[0]))
    monkeypatch.setattr("os.access", lambda *_: False)  # what the system says to all but root
    changes = {"write", "writev", "rename", "replace", "unlink", "link", "mkdir", "utime", "flock"}
    with SystemFaults(1, errno.EROFS, lasting=changes, only=changes):
        assert read(ShardCache(tmp_path / "c").open(urls[0])) == shard(0)
        assert Path(ShardCache(tmp_path / "c").get(urls[0])).read_bytes() == shard(0)
        with pytest.raises(AccessDenied, match="cache directory cannot be used"):
            ShardCache(tmp_path / "c").open(urls[1])


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_the_umask_decides_who_shares_a_directory(tmp_path, server, umask):
    before = os.umask(umask)
    try:
        read(ShardCache(tmp_path / "c").open(server.add("a.tar", shard(1))))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "c").rglob("*") if path.is_file()}
    assert any(name.endswith(".lock") for name in modes)
    assert set(modes.values()) == {0o666 & ~umask}, modes


def test_the_lock_of_an_evicted_shard_stays_while_a_process_holds_it(tmp_path):
    """Without its file another process could take the same lock, and remove what the first one is fetching."""
    held, evicting, another = (Locks(str(tmp_path)) for _ in range(3))
    assert held.try_acquire("fill a.tar")
    evicting.discard("fill a.tar")
    assert not another.try_acquire("fill a.tar")
    held.release("fill a.tar")
    evicting.discard("fill a.tar")
    assert list(tmp_path.iterdir()) == []
    assert another.try_acquire("fill a.tar")
    another.release("fill a.tar")
