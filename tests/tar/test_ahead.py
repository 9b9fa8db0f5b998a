"""Windows of local files that are read by a thread: the same members and errors as without it, and nothing left."""

import io
import os
import threading
import warnings

import pytest

from webdataset import stores, tar
from webdataset.errors import StoreError, TruncatedShard
from webdataset.samples import read_shard
from webdataset.tar import _blocks

SIZES = [100_000, 33_000, 7, 140_000, 0, 65_536, 250_000, 512, 90_001]


@pytest.fixture(autouse=True)
def exchanges(monkeypatch):
    """How often a window came from the thread; the test fails if that was never meant to be tested."""
    counted = []
    exchange = _blocks.Blocks._exchange
    monkeypatch.setattr(_blocks, "AHEAD_WINDOW", 1 << 20)
    monkeypatch.setattr(_blocks.Blocks, "_exchange", lambda blocks: counted.append(1) or exchange(blocks))
    return counted


def archive(members, end=tar.END_OF_ARCHIVE):
    return b"".join(tar.encode_header(name, len(data)) + data + tar.padding(len(data)) for name, data in members) + end


def members(count=120, sizes=SIZES):
    return [(f"{n:05d}.bin", bytes([n % 251]) * sizes[n % len(sizes)]) for n in range(count)]


@pytest.fixture
def shard(tmp_path):
    def write(content):
        path = tmp_path / "a.tar"
        path.write_bytes(content)
        return str(path)

    return write


def threads():
    return [each for each in threading.enumerate() if each.name == "webdataset-soon"]


def test_the_same_members_as_from_memory(shard, exchanges):
    content = archive(members())
    with stores.open_read(shard(content)) as stream:
        found = list(tar.read_members(stream))
    assert len(exchanges) > 3
    assert found == list(tar.read_members(io.BytesIO(content)))
    assert [(member.name, member.data) for member in found] == members()
    assert not threads()


@pytest.mark.parametrize("sizes", [[100_000] * 9 + [3_000_000], [100_000, 260_000], [50_000] * 30 + [10] * 500])
def test_sizes_that_change_between_the_ways_of_reading(shard, exchanges, sizes):
    content = archive(members(1060 if max(sizes) < 100_000 else 90, sizes))
    with stores.open_read(shard(content)) as stream:
        assert list(tar.read_members(stream)) == list(tar.read_members(io.BytesIO(content)))
    assert exchanges


@pytest.mark.parametrize("where", [0.3, 0.5, 0.77, 0.99])
def test_a_truncated_shard_is_the_same_error(shard, exchanges, where):
    content = archive(members())
    content = content[: int(len(content) * where)]
    found, expected = [], []
    with stores.open_read(shard(content)) as stream, pytest.raises(TruncatedShard) as error:
        found.extend(tar.read_members(stream))
    with pytest.raises(TruncatedShard) as reference:
        expected.extend(tar.read_members(io.BytesIO(content)))
    assert exchanges
    assert str(error.value) == str(reference.value)


def test_a_shard_that_is_truncated_in_place_is_an_error_and_no_signal(shard, exchanges):
    path = shard(archive(members(400)))
    with pytest.raises(TruncatedShard):  # noqa: PT012 - which sample sees it depends on what was read before
        for number, sample in enumerate(read_shard(path)):
            assert sample["bin"] == members(400)[number][1]
            if number == 40:
                os.truncate(path, os.path.getsize(path) // 3)
    assert exchanges
    assert not threads()


def test_closing_in_the_middle_ends_the_thread(shard, exchanges):
    samples = read_shard(shard(archive(members(400))))
    for _ in range(60):
        next(samples)
    assert exchanges
    assert threads()
    samples.close()
    assert not threads()


def test_a_reader_that_is_dropped_ends_its_thread(shard):
    stream = stores.open_read(shard(b"x" * 4096))
    stream.read_soon(memoryview(bytearray(512)))
    assert threads()
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        del stream
    assert not threads()


def test_an_error_of_the_disk_comes_after_the_bytes_before_it(shard, exchanges, monkeypatch):
    import webdataset.stores._read_soon as soon

    path, broken = shard(archive(members(400))), 12_000_000

    def preadv(descriptor, buffers, position):
        if position + len(buffers[0]) > broken:
            raise OSError(5, "Input/output error")
        return os.preadv(descriptor, buffers, position)

    class Os:
        def __getattr__(self, name):
            return preadv if name == "preadv" else getattr(os, name)

    monkeypatch.setattr(soon, "os", Os())
    found = []
    with pytest.raises(StoreError, match="Input/output error") as error:
        found.extend(read_shard(path))
    assert path in str(error.value)
    assert exchanges
    assert found
    assert [sample["bin"] for sample in found] == [data for _, data in members(400)][: len(found)]


def test_bytes_that_are_not_wanted_are_read_again(shard):
    with stores.open_read(shard(bytes(range(256)) * 100)) as stream:
        memory = bytearray(1000)
        stream.read(3)
        stream.read_soon(memoryview(memory))
        stream.forget_soon()
        assert stream.read(2) == bytes([3, 4])
        stream.read_soon(memoryview(memory))
        assert stream.take_soon() == 1000
        assert memory[0] == 5
        assert stream.read(1) == bytes([1005 % 256])


def test_a_forked_process_goes_on_by_itself(shard):
    with stores.open_read(shard(bytes(range(256)) * 100)) as stream:
        memory = bytearray(1000)
        stream.read_soon(memoryview(memory))
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            good = stream.take_soon() == 1000 and memory[9] == 9
            stream.read_soon(memoryview(memory))
            good = good and stream.take_soon() == 1000 and memory[0] == 1000 % 256
            stream.close()
            os.write(writes, b"good" if good else b"bad")
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writes)
        with os.fdopen(reads, "rb") as answer:
            assert answer.read() == b"good"


def test_a_pipe_is_not_read_ahead(tmp_path, exchanges):
    content, path = archive(members(60)), str(tmp_path / "pipe")
    os.mkfifo(path)

    def write():
        with open(path, "wb") as pipe:
            pipe.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    with stores.open_read(path) as stream:
        found = list(tar.read_members(stream))
    writer.join()
    assert not exchanges
    assert len(found) == 60


def test_a_thread_that_runs_out_of_memory_does_not_hang_its_reader(shard, monkeypatch):
    path, calls, read = shard(archive(members())), [], os.preadv

    def fails_late(*args):
        calls.append(args)
        if len(calls) == 3:
            raise MemoryError
        return read(*args)

    monkeypatch.setattr(os, "preadv", fails_late)
    with pytest.raises(MemoryError), stores.open_read(str(path)) as stream:
        list(tar.read_members(stream))


def test_without_another_thread_the_reader_reads(shard, monkeypatch):
    def cannot(thread):
        raise RuntimeError("can't start new thread")

    path = shard(archive(members()))
    monkeypatch.setattr(threading.Thread, "start", cannot)
    with stores.open_read(str(path)) as stream:
        assert [(member.name, bytes(member.data)) for member in tar.read_members(stream)] == members()
