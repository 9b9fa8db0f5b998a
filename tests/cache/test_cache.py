"""The shard cache: fetched once, read meanwhile, intact."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cache.shards import MB, files, notes, read, shard
from webdataset import stores
from webdataset.cache import ShardCache, url_to_cache_name, url_to_hashed_name
from webdataset.cache._file_names import url_hash
from webdataset.cache._machine_id import machine
from webdataset.cache._records import Claim, Records
from webdataset.errors import FormatError, SpecError, StoreError
from webdataset.testing import Fault, FaultServer, Schedule


def test_fetched_once_then_from_the_disk(folder, server):
    data = shard(1)
    url = server.add("a.tar", data)
    cache = ShardCache(folder)
    assert read(cache.open(url)) == data
    assert read(cache.open(url)) == data
    with cache.open(url) as stream:
        assert stream.name == cache.get(url)
    assert server.sent("a.tar") == len(data)
    assert notes(folder, ".part") == notes(folder, ".claim") == notes(folder, ".lease") == []


def test_D12_equal_last_components_do_not_collide(folder, server):
    one, two = server.add("x/a.tar", shard(1)), server.add("y/a.tar", shard(2))
    cache = ShardCache(folder)
    assert read(cache.open(one)) == shard(1)
    assert read(cache.open(two)) == shard(2)
    assert read(cache.open(one + "?part=2")) == shard(1)
    assert len(files(folder)) == 3


def test_D12_a_users_names_that_collide_are_an_error_not_the_wrong_shard(folder, server):
    one, two = server.add("x/a.tar", shard(1)), server.add("y/a.tar", shard(2))
    cache = ShardCache(folder, url_to_name=url_to_cache_name)
    assert read(cache.open(one)) == shard(1)
    assert files(folder) == ["a.tar"]
    with pytest.raises(SpecError, match="two addresses"):
        cache.open(two)


def test_names_with_directories(folder, server):
    url = server.add("x/a.tar", shard(1))
    cache = ShardCache(folder, url_to_name=lambda url: url_to_cache_name(url, ndir=1))
    assert read(cache.open(url)) == shard(1)
    assert cache.get(url) == str(folder / "x" / "a.tar")
    for bad in ("/etc/passwd", "../x", "", "a//b", ".webdataset/x"):
        with pytest.raises(SpecError):
            ShardCache(folder, url_to_name=lambda url, bad=bad: bad).open(url)


def test_readers_stream_while_it_is_fetched(folder):
    data = shard(1, 2 * MB)
    with FaultServer(bandwidth=4 * MB) as server:
        url = server.add("a.tar", data)
        cache = ShardCache(folder)
        with cache.open(url) as first:
            assert first.read(512) == data[:512]
            assert server.sent("a.tar") < len(data)  # the first bytes came long before the last
            with ShardCache(folder).open(url) as second:  # as another process would
                assert second.read() == data
            assert first.read() == data[512:]
        assert server.sent("a.tar") == len(data)
        stores.close_connections()


def test_many_threads_one_download(folder, server):
    data = shard(1)
    url = server.add("a.tar", data)
    caches, results = [ShardCache(folder) for _ in range(4)], []
    threads = [threading.Thread(target=lambda n=n: results.append(read(caches[n % 4].open(url)))) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [data] * 12
    assert server.sent("a.tar") == len(data)


def test_two_interleaved_readers_in_one_thread_do_not_wait_for_each_other(folder, server):
    data = shard(1)
    cache, url = ShardCache(folder), server.add("a.tar", data)
    with cache.open(url) as one, cache.open(url) as two:
        assert two.read() == data
        assert one.read() == data


def test_an_early_close_leaves_a_part_that_the_next_reader_takes_over(tmp_path):
    data = shard(1, 2 * MB)
    with FaultServer(bandwidth=4 * MB) as server:
        url = server.add("a.tar", data)
        with ShardCache(tmp_path / "c").open(url) as stream:
            assert stream.read(3 * MB // 2) == data[: 3 * MB // 2]
        assert notes(tmp_path / "c", ".part")
        assert read(ShardCache(tmp_path / "c").open(url)) == data
        assert server.sent("a.tar") <= len(data) + MB  # what was on the wire when the first reader left
        assert not notes(tmp_path / "c", ".part")
        stores.close_connections()


def test_a_part_of_an_older_version_is_not_continued(tmp_path):
    with FaultServer(bandwidth=8 * MB) as server:
        url = server.add("a.tar", shard(1, 2 * MB))
        with ShardCache(tmp_path / "c").open(url) as stream:
            stream.read(MB)
        server.add("a.tar", shard(2, 2 * MB))
        assert read(ShardCache(tmp_path / "c").open(url)) == shard(2, 2 * MB)
        stores.close_connections()


def test_D26_validated_before_it_is_published(folder, server):
    url = server.add("a.tar", b"<html>not found</html>" * 1000)
    cache = ShardCache(folder)
    with pytest.raises(FormatError, match="not a tar archive"), cache.open(url) as stream:
        while stream.read(9999):
            pass
    with pytest.raises(ValueError, match="3c 68 74 6d 6c"):
        cache.get(url)
    assert files(folder) == notes(folder, ".part") == notes(folder, ".entry") == []
    assert read(ShardCache(folder, validator=None).open(url)).startswith(b"<html>")


def test_D26_a_failed_download_leaves_nothing_that_looks_complete(tmp_path, server, monkeypatch):
    monkeypatch.setenv("WDS_RETRIES", "0")
    url = server.add("a.tar", shard(1), Schedule((Fault(9000, "gone"),)))
    cache = ShardCache(tmp_path / "c")
    with pytest.raises(StoreError), cache.open(url) as stream:
        while stream.read(1000):
            pass
    assert files(tmp_path / "c") == []


def test_a_body_without_a_length_that_is_cut_is_never_kept(tmp_path, server, monkeypatch):
    """The public library keeps it as complete for ever."""
    monkeypatch.setenv("WDS_RETRIES", "1")
    url = server.add("a.tar", shard(1), Schedule((Fault(10_240, "no-length"),) * 5, ranges=False))
    with pytest.raises(StoreError):
        ShardCache(tmp_path / "c").get(url)
    assert files(tmp_path / "c") == []


@pytest.mark.parametrize("damage", ["truncate", "append", "flip", "flip quietly", "empty", "delete"])
def test_a_damaged_entry_is_found_and_fetched_again(tmp_path, server, damage):
    data = shard(1)
    url = server.add("a.tar", data)
    path = ShardCache(tmp_path / "c").get(url)
    before = os.stat(path)
    if damage == "delete":
        os.unlink(path)
    else:
        broken = {"truncate": data[:-1], "append": data + b"x", "empty": b""}.get(
            damage, data[:5000] + b"X" + data[5001:]
        )
        with open(path, "wb") as file:
            file.write(broken)
        if damage == "flip quietly":
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    policy = "always" if damage == "flip quietly" else None
    assert read(ShardCache(tmp_path / "c", revalidate=policy).open(url)) == data  # a process that starts now
    assert server.sent("a.tar") == 2 * len(data)


def test_a_copied_cache_directory_is_still_good(tmp_path, server):
    url = server.add("a.tar", shard(1))
    path = ShardCache(tmp_path / "c").get(url)
    os.utime(path)  # what a copy without times does
    assert read(ShardCache(tmp_path / "c").open(url)) == shard(1)
    assert server.sent("a.tar") == len(shard(1))


def test_a_note_half_written_by_a_killed_process_is_removed_at_the_next_start(tmp_path, server):
    """killing.py meets this once in hundreds of kills; here the write itself is the moment of death."""
    url = server.add("a.tar", shard(1))
    script = "import os, sys, signal\nfrom webdataset.cache import ShardCache, _records\n"
    script += "_records.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    script += "ShardCache(sys.argv[1]).get(sys.argv[2])\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "c"), url], env=environment)
    assert killed.returncode == -signal.SIGKILL
    assert any(name.endswith(".new") for name in os.listdir(tmp_path / "c" / ".webdataset"))
    assert read(ShardCache(tmp_path / "c").open(url)) == shard(1)
    assert not any(name.endswith(".new") for name in os.listdir(tmp_path / "c" / ".webdataset"))


def test_a_name_of_any_alphabet_and_length_fits_the_file_system(tmp_path, server):
    name = url_to_hashed_name("https://h/" + "あ=+" * 200)
    assert len(name) == len(name.encode()) < 140
    cache = ShardCache(tmp_path / "c", url_to_name=lambda _: name)
    assert read(cache.open(server.add("a.tar", shard(1)))) == shard(1)


def test_a_reader_survives_that_its_file_is_taken_away(tmp_path, server, monkeypatch):
    """Network file systems answer ESTALE when another machine evicted the file."""
    data = shard(1)
    url = server.add("a.tar", data)
    cache = ShardCache(tmp_path / "c")
    real, calls = os.preadv, []

    def stale(*args):
        calls.append(1)
        if len(calls) == 2:
            raise OSError(errno.ESTALE, "Stale file handle")
        return real(*args)

    monkeypatch.setattr("webdataset.cache._follow_fetch.os.preadv", stale)
    with cache.open(url) as stream:
        pieces = [stream.read(50_000) for _ in range(99)]
    assert b"".join(pieces) == data
    assert len(calls) >= 2


def test_it_can_be_pickled_and_used_in_a_forked_child(tmp_path, server):
    url = server.add("a.tar", shard(1))
    cache = ShardCache(tmp_path / "c")
    assert read(pickle.loads(pickle.dumps(cache)).open(url)) == shard(1)
    assert read(cache.open(url)) == shard(1)
    child = os.fork()
    if not child:
        os._exit(read(cache.open(url)) != shard(1))
    assert os.waitpid(child, 0)[1] == 0


def test_what_killed_processes_left_is_swept_after_a_day(tmp_path, server):
    cache = ShardCache(tmp_path / "c")
    read(cache.open(server.add("a.tar", shard(1))))
    left = tmp_path / "c" / ".webdataset" / "b.tar.0123abcd.part"
    left.write_bytes(b"x")  # no claim: nobody can use it
    ShardCache(tmp_path / "c").open(server.url("a.tar")).close()
    assert not left.exists()


def test_bad_settings():
    with pytest.raises(SpecError):
        ShardCache("x", url_to_name=3)
    with pytest.raises(SpecError):
        ShardCache("x", limit="big")


def test_a_part_is_continued_although_another_process_has_the_number_of_its_writer(tmp_path, server):
    """The numbers of processes are used again, and one that was killed keeps its number until it is waited for."""
    data = shard(1)
    url, half = server.add("a.tar", data), len(data) // 2
    cache = ShardCache(tmp_path / "c")
    records, name = Records(str(tmp_path / "c")), cache.name(url)
    Path(records.part(name, "1234abcd")).write_bytes(data[:half])
    claim = Claim(url_hash(url), stores.stat(url).etag, len(data), len(data), machine(), os.getppid())
    records.write_claim(name, "1234abcd", claim)
    assert read(cache.open(url)) == data
    assert server.sent("a.tar") == len(data) - half
    assert notes(tmp_path / "c", ".part") == notes(tmp_path / "c", ".claim") == []
