"""Local files: published complete or not at all, even after kill -9."""

import errno
import fcntl
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from webdataset import stores
from webdataset.errors import AccessDenied, ShardNotFound, StoreError
from webdataset.stores import _local_files


def test_published_on_close_and_not_before(tmp_path):
    target = tmp_path / "a.tar"
    stream = stores.open_write(target)
    stream.write(b"hello")
    assert not target.exists()
    stream.close()
    stream.close()
    assert target.read_bytes() == b"hello"
    assert os.listdir(tmp_path) == ["a.tar"]


def test_an_exception_keeps_the_old_file(tmp_path):
    target = tmp_path / "a.tar"
    target.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), stores.open_write(target) as stream:
        stream.write(b"new")
        raise ZeroDivisionError
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.tar"]


def test_a_writer_that_is_lost_publishes_nothing(tmp_path):
    stream = stores.open_write(tmp_path / "a.tar")
    stream.write(b"half")
    del stream
    assert os.listdir(tmp_path) == []


def test_modes_links_and_devices(tmp_path):
    old = os.umask(0o027)
    try:
        stores.open_write(tmp_path / "a").close()
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == 0o640
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with stores.open_write(tmp_path / "link") as stream:
        stream.write(b"through")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"through"
    with stores.open_write("/dev/null") as stream:
        stream.write(b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_two_writers_of_one_name_do_not_mix(tmp_path):
    def write(letter):
        with stores.open_write(tmp_path / "a") as stream:
            for _ in range(100):
                stream.write(letter * 10_000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"x", b"y", b"z")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set((tmp_path / "a").read_bytes()) in ({120}, {121}, {122})
    assert os.listdir(tmp_path) == ["a"]


def test_bad_places(tmp_path, monkeypatch):
    with pytest.raises(ShardNotFound, match="file not found"):
        stores.open_read(tmp_path / "none.tar")
    with pytest.raises(ShardNotFound):
        stores.open_write(tmp_path / "none" / "a.tar")
    with pytest.raises(StoreError, match="directory"):
        stores.open_read(tmp_path)
    with pytest.raises(ShardNotFound):
        stores.stat(tmp_path / "none.tar")
    (tmp_path / "a").write_bytes(b"hello")
    with pytest.raises(StoreError, match="the object has 5") as caught:
        stores.read_range(tmp_path / "a", 3, 9)
    assert caught.value.where.offset == 5


@pytest.mark.parametrize("size", [10, 10 << 20])
def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path, monkeypatch, size):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    stream = stores.open_write(tmp_path / "a")
    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(StoreError, match="the disk is full"), stream:
        stream.write(b"x" * size)
    assert os.listdir(tmp_path) == []


def test_a_system_that_takes_a_part_of_a_write_gets_the_rest(tmp_path, monkeypatch):
    """Linux writes at most 2 GiB at a time, and less on a disk that is nearly full or by an interrupt."""
    blocks, writev = [bytes([n]) * (n * 1000 + 1) for n in range(200)], os.writev
    monkeypatch.setattr(os, "writev", lambda fd, parts: writev(fd, [b"".join(parts)[:7777]]))
    with stores.open_write(tmp_path / "a") as stream:
        for block in blocks:
            buffer = bytearray(block)
            assert stream.write(buffer) == len(block)
            buffer[:] = bytes(len(buffer))  # the caller's to change
    assert (tmp_path / "a").read_bytes() == b"".join(blocks)


def test_a_forked_child_does_not_touch_what_took_the_descriptor_of_a_finished_file(tmp_path):
    done = stores.open_write(tmp_path / "a")
    done.close()
    with open(tmp_path / "b", "wb", buffering=0) as file:
        os.dup2(file.fileno(), done._descriptor)
        child = os.fork()
        if child == 0:
            os.write(done._descriptor, b"hello")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        if done._descriptor != file.fileno():
            os.close(done._descriptor)
    assert (tmp_path / "b").read_bytes() == b"hello"


@pytest.mark.skipif(os.getuid() == 0, reason="root may read and write everything")
def test_permissions(tmp_path):
    (tmp_path / "a").touch(mode=0)
    with pytest.raises(AccessDenied):
        stores.open_read(tmp_path / "a")


WRITER = """
import sys, itertools
from webdataset import stores
for n in itertools.count():
    letter = bytes([97 + n % 26])
    with stores.open_write(sys.argv[1]) as stream:
        for _ in range(50):
            stream.write(letter * 20_000)
    print(n, flush=True)
"""


def killed_writers(folder, kills, seed):
    rng, target = random.Random(seed), folder / "a.tar"
    for _ in range(kills):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE)
        with writer:
            writer.stdout.readline()
            for _ in range(rng.randrange(3)):
                writer.stdout.readline()
            threading.Event().wait(rng.uniform(0, 0.01))
            writer.send_signal(signal.SIGKILL)
        data = target.read_bytes()
        assert len(data) == 1_000_000
        assert len(set(data)) == 1
        assert len(os.listdir(folder)) <= 2  # the shard, and what the last killed writer left
    stores.open_write(target).abort()  # the next start
    assert os.listdir(folder) == ["a.tar"]


def test_killed_writers_publish_nothing_broken_and_the_next_one_cleans_up(tmp_path):
    killed_writers(tmp_path, 10, 1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_1000_killed_writers(tmp_path):
    killed_writers(tmp_path, 1000, 2)


def test_a_file_whose_write_failed_is_not_published(tmp_path, monkeypatch):
    """Also if the caller goes on after the error and the disk has space again."""
    upload = stores.open_write(tmp_path / "a.tar")
    with monkeypatch.context() as full:
        full.setattr(os, "writev", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(StoreError):
            upload.write(bytes(2 << 20))
    upload.write(b"more")
    with pytest.raises(StoreError, match="an earlier write failed"):
        upload.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("age", [0, 3600])
def test_what_a_killed_writer_left_under_a_number_that_another_process_has_now(tmp_path, age):
    """In a container the next start has the same number, mostly 1."""
    left = Path(_local_files._temporary_name(str(tmp_path / "a.tar")))  # with the number of this process
    left.write_bytes(b"x")
    os.utime(left, times=(time.time() - age,) * 2)
    with open(left, "rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        stores.write_bytes(tmp_path / "a.tar", b"y")
        assert left.exists(), "a writer has it"
    stores.write_bytes(tmp_path / "a.tar", b"y")
    assert left.exists() == (age == 0)
