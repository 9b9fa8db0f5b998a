"""Large frames travel in parts, into memory that is used again."""

import struct

import numpy as np
import pytest

import webdataset as wds
from tests.serve.false_worker import false_worker
from tests.serve.pipelines import plain
from webdataset.serve import Worker
from webdataset.serve._batch_memory import BatchMemory
from webdataset.serve._message_parts import PART, Parts, split
from webdataset.serve._messages import Request, unpack

SIZES = [0, 1, PART, PART + 1, 3 * PART, 2 * PART + 7]


def sent(frames, number=5):
    message, *parts = split(b"made", {"number": number}, frames)
    return unpack(message), parts


def received(message, parts, memory=None):
    (_, header, frames) = message
    found = Parts(header, frames, memory or BatchMemory(0))
    for first, data in parts:
        assert not found.is_complete
        found.place(first)[:] = data
    assert found.is_complete
    return found


def test_frames_of_all_sizes():
    frames = [np.random.default_rng(size).integers(0, 255, size, np.uint8).data for size in SIZES]
    found = received(*sent(frames)).frames
    assert [bytes(frame) for frame in found] == [bytes(frame) for frame in frames]


def test_frames_are_not_copied_to_be_sent():
    array = np.zeros(2 * PART, np.uint8)
    _, ((_, data), _) = sent([array.data])
    assert np.shares_memory(np.frombuffer(data, "u1"), array)


def replaced(first, at, value):
    words = list(struct.unpack("<4sqqq", first))
    words[at] = value
    return struct.pack("<4sqqq", *words)


MALFORMED = {
    "another number": lambda first, data: [replaced(first, 1, 6), data],
    "another frame": lambda first, data: [replaced(first, 2, 0), data],
    "another place": lambda first, data: [replaced(first, 3, PART), data],
    "too short": lambda first, data: [first, data[1:]],
    "too long": lambda first, data: [first, bytes(data) + b"x"],
    "no data": lambda first, data: [first],
    "a message": lambda first, data: [b"part", b"\x81\xa6number\x01"],
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_worker_whose_parts_are_malformed_is_not_used(few, name):
    """Over a real connection: what it sent so far is thrown away, and what it is asked for goes to another."""
    sent = []

    def make():
        return wds.WebDataset(few, order="random").map(large).batched(4)

    with Worker(make) as good:

        def answer(message):
            kind, header, _ = unpack(message)
            if kind != b"make":
                return [good._answer(b"x", kind, header["number"], header)]
            sent.append(header["number"])
            made = good._encode(Request.from_json(header))
            message, part, *parts = split(b"made", {"number": header["number"]}, made.frames)
            return [message, MALFORMED[name](*part), *parts]

        with false_worker(answer) as bad:
            dataset = wds.connect([bad, good.address], patience=0.4, timeout=20)
            assert [plain(item) for item in dataset] == [plain(item) for item in make()]
    assert sent


@pytest.mark.parametrize(
    "parts",
    [7, {}, [7], [[0]], [[0, -1]], [[0, 0]], [[0, "x"]], [[1, 5]], [["0", 5]], [[-1, 5]], [[0, True]], [[0, 1 << 40]]],
)
def test_sizes_that_are_not_possible(parts):
    with pytest.raises(wds.FormatError):
        Parts({"number": 1, "parts": parts or 0}, [b""], BatchMemory(0))


def test_memory_is_used_again_when_no_array_refers_to_it():
    memory = BatchMemory(1 << 20)
    array = np.frombuffer(memory.take(5000), np.uint16)
    where, part = array.ctypes.data, array[100:200].reshape(10, 10)
    array[:] = 7
    del array
    other = np.frombuffer(memory.take(5000), np.uint8)
    other[:] = 0
    assert (part == 7).all() and memory.free_bytes == 0
    del part
    assert np.frombuffer(memory.take(4000), np.uint8).ctypes.data == where


def test_memory_that_is_kept_is_bounded():
    memory = BatchMemory(10_000)
    taken = [memory.take(4000) for _ in range(5)]
    del taken
    kept = memory.take(100_000)
    assert kept.nbytes == 100_000 and memory.free_bytes == 8000


def large(sample):
    return {"image": np.full((PART // 2 + 3,), int(sample["__key__"]), np.float32), "key": sample["__key__"]}


def test_batches_that_are_kept_are_not_written_over(few):
    def make():
        return wds.WebDataset(few, order="random").map(large).batched(4)

    with Worker(make, threads=2) as worker:
        kept = list(wds.connect(worker.address, patience=5, timeout=60))
    assert [plain(item) for item in kept] == [plain(item) for item in make()]
