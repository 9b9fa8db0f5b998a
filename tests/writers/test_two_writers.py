"""Two live writers of one name, and a run after a longer one."""

import os
import signal
import subprocess
import sys

import pytest

from webdataset import stores
from webdataset.errors import StoreError
from webdataset.writers import ShardWriter, TarWriter

SAMPLE = {"__key__": "a", "txt": "x"}

WRITER = """
import sys
from webdataset.writers import ShardWriter
with ShardWriter(sys.argv[1] + "/%d.tar", maxcount=2) as sink:
    for number in range(5):
        sink.write({"__key__": f"{sys.argv[2]}{number}", "txt": "x"})
        print(number, flush=True)
        sys.stdin.readline()
"""


def start(folder, name):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(folder), name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def test_a_second_live_writer_of_a_name_is_refused(tmp_path):
    with start(tmp_path, "a") as first:
        assert first.stdout.readline() == "0\n"  # its first shard is open
        with start(tmp_path, "b") as second:
            _, messages = second.communicate("\n" * 9)
        assert second.returncode != 0
        assert "another writer is writing this archive" in messages
        _, messages = first.communicate("\n" * 9)
        assert first.returncode == 0, messages
    assert sorted(os.listdir(tmp_path)) == ["0.tar", "1.tar", "2.tar"]


def test_a_killed_writer_does_not_block_the_next_one(tmp_path):
    with start(tmp_path, "a") as first:
        first.stdout.readline()
        first.kill()
    with ShardWriter(f"{tmp_path}/%d.tar") as sink:
        sink.write(SAMPLE)
    assert os.listdir(tmp_path) == ["0.tar"]


def test_two_writers_in_one_process(tmp_path):
    path = str(tmp_path / "a.tar")
    with TarWriter(path) as first:
        first.write(SAMPLE)
        with pytest.raises(StoreError, match="another writer"):
            TarWriter(path)
        os.symlink(path, tmp_path / "link.tar")
        with pytest.raises(StoreError, match="another writer"):
            TarWriter(str(tmp_path / "link.tar"))
    for end in ("close", "abort"):
        writer = TarWriter(path)
        writer.write(SAMPLE)
        getattr(writer, end)()
    with TarWriter(path) as again:
        again.write(SAMPLE)
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "link.tar"]


def test_a_forked_child_does_not_release_its_parents_name(tmp_path):
    writer = TarWriter(str(tmp_path / "a.tar"))
    writer.write(SAMPLE)
    child = os.fork()
    if not child:
        del writer
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(StoreError, match="another writer"):
        TarWriter(str(tmp_path / "a.tar"))
    writer.close()
    assert os.listdir(tmp_path) == ["a.tar"]


def run(pattern, shards, **options):
    with ShardWriter(pattern, maxcount=1, **options) as sink:
        for number in range(shards):
            sink.write({"__key__": f"{number}", "txt": "x"})


@pytest.mark.parametrize("index", [None, True])
def test_a_shorter_run_does_not_leave_old_shards_unnoticed(tmp_path, index):
    pattern = f"{tmp_path}/%d.tar"
    run(pattern, 5, index=index)
    run(pattern, 5, index=index)  # as many: nothing is left
    with pytest.raises(StoreError, match=r"earlier run.*3\.tar.*overwrite=True"):
        run(pattern, 3, index=index)
    assert len(list(tmp_path.glob("*.tar"))) == 5
    run(pattern, 2, index=index, overwrite=True)
    assert sorted(p.name for p in tmp_path.glob("*.tar")) == ["0.tar", "1.tar"]
    assert len(os.listdir(tmp_path)) == (4 if index else 2)
    run(pattern, 4, index=index)


def test_shards_of_other_writers_with_the_same_pattern_are_left_alone(tmp_path):
    pattern = f"{tmp_path}/%d.tar"
    run(pattern, 3, start_shard=10)
    run(pattern, 2)
    run(pattern, 1, start_shard=5)
    with ShardWriter(pattern, maxcount=1, overwrite=True) as sink:
        sink.write(SAMPLE)
        run(pattern, 3, start_shard=1)  # while this one writes: not of an earlier run
    assert sorted(int(p.stem) for p in tmp_path.glob("*.tar")) == [0, 1, 2, 3, 5, 10, 11, 12]


def test_a_shorter_run_into_another_store_is_refused():
    run("memory://shorter/%d.tar", 3)
    run("memory://shorter/%d.tar", 3)
    for overwrite in (False, True):
        with pytest.raises(StoreError, match="earlier run"):
            run("memory://shorter/%d.tar", 2, overwrite=overwrite)
    assert len(stores.list_urls("memory://shorter/*.tar")) == 3


LONGEST = 255  # bytes of a file name


@pytest.mark.parametrize("letter", "aé中😀")
def test_two_names_as_long_as_the_system_allows(tmp_path, letter):
    """The names of locks and temporary files have room, and are as different as those of the archives."""
    repeated = letter * ((LONGEST - len("-0.tar")) // len(letter.encode()))
    paths = [str(tmp_path / f"{repeated}-{number}.tar") for number in range(2)]
    writers = [TarWriter(path) for path in paths]
    for path in paths:
        with pytest.raises(StoreError, match="another writer"):
            TarWriter(path)
    for writer in writers:
        writer.write(SAMPLE)
        writer.close()
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, paths))


@pytest.mark.parametrize("letter", "aé中😀")
def test_what_a_killed_writer_of_a_long_name_left_is_removed(tmp_path, letter):
    path = str(tmp_path / (letter * (LONGEST // len(letter.encode()))))
    child = os.fork()
    if not child:
        stream = stores.open_write(path)
        stream.write(b"x")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(os.listdir(tmp_path)) == 1
    stores.write_bytes(path, b"y")
    assert os.listdir(tmp_path) == [os.path.basename(path)]
