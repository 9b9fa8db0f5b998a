"""Large frames travel in parts, into memory that is used again."""

import numpy as np
import pytest

import webdataset as wds
from tests.serve.pipelines import plain
from webdataset.serve import Worker
from webdataset.serve._batch_memory import BatchMemory
from webdataset.serve._message_parts import PART, Parts, split
from webdataset.serve._messages import unpack

SIZES = [0, 1, PART, PART + 1, 3 * PART, 2 * PART + 7]


def sent(frames, number=5):
    return [unpack(message) for message in split(b"made", {"number": number}, frames)]


def received(messages, memory=None, largest=1 << 30):
    (_, header, frames), *rest = messages
    parts = Parts(header, frames, memory or BatchMemory(0), largest)
    for _, place, data in rest:
        assert not parts.is_complete
        parts.add(place, data)
    assert parts.is_complete
    return parts


def test_frames_of_all_sizes():
    frames = [np.random.default_rng(size).integers(0, 255, size, np.uint8).data for size in SIZES]
    found = received(sent(frames)).frames
    assert [bytes(frame) for frame in found] == [bytes(frame) for frame in frames]


def test_frames_are_not_copied_to_be_sent():
    array = np.zeros(2 * PART, np.uint8)
    (_, (_, _, (first,)), _) = sent([array.data])
    assert np.shares_memory(np.frombuffer(first, "u1"), array)


MALFORMED = {
    "another number": lambda header, data: ({**header, "number": 6}, data),
    "another frame": lambda header, data: ({**header, "frame": 1}, data),
    "another place": lambda header, data: ({**header, "offset": PART}, data),
    "no place": lambda header, data: ({"number": 5}, data),
    "too short": lambda header, data: (header, [data[0][1:]]),
    "too long": lambda header, data: (header, [bytes(data[0]) + b"x"]),
    "two frames": lambda header, data: (header, [data[0], data[0]]),
    "nothing": lambda header, data: (header, []),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_part_that_is_not_the_next_one(name):
    (_, header, frames), (_, place, data), *_ = sent([bytes(2 * PART)])
    parts = Parts(header, frames, BatchMemory(0), 1 << 30)
    with pytest.raises(wds.FormatError):
        parts.add(*MALFORMED[name](place, data))


@pytest.mark.parametrize(
    "parts", [7, {"0": -1}, {"0": "x"}, {"1": 5}, {"x": 5}, {"": 5}, {0: 5}, {"²": 5}, {"0": 1 << 40}, {"0": True}]
)
def test_sizes_that_are_not_possible(parts):
    with pytest.raises(wds.FormatError):
        Parts({"number": 1, "parts": parts}, [b""], BatchMemory(0), 1 << 30)


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
