import io
from contextlib import suppress
from gzip import compress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tar.reading import outcome
from tests.tar.test_read import archives
from webdataset.errors import FormatError, StoreError, TruncatedShard
from webdataset.tar import new_window, read_runs
from webdataset.tar._byte_window import TRUSTED, Blocks


def test_what_came_before_a_failure_is_handed_on_first(trickle):
    blocks = Blocks(trickle(b"a" * 512 + b"b" * 100, step=300, failure=StoreError("reset by peer")))
    assert blocks.peek() == b"a" * 512
    blocks.skip(512)
    with pytest.raises(StoreError, match="reset by peer"):
        blocks.take(200, "the payload")


def test_a_failure_in_the_padding_is_not_taken_for_the_end(trickle):
    blocks = Blocks(trickle(b"a" * 512 + b"b" * 100, failure=StoreError("reset by peer")), window=512)
    blocks.peek()
    blocks.skip(512)
    blocks.take(100, "the payload")
    blocks.skip(412)
    with pytest.raises(StoreError, match="reset by peer"):
        blocks.peek()


def test_sizes_are_not_believed():
    class Recorder:
        asked = []

        def read(self, size):
            self.asked.append(size)
            return b""

    with pytest.raises(TruncatedShard, match="truncated: 0 of 10,000,000,000 bytes of the payload"):
        Blocks(Recorder()).take(10_000_000_000, "the payload")
    assert max(Recorder.asked) <= TRUSTED


def test_payloads_beyond_the_trusted_size_are_put_together(monkeypatch, trickle):
    monkeypatch.setattr("webdataset.tar._byte_window.TRUSTED", 1000)
    data = bytes(range(256)) * 40
    blocks = Blocks(trickle(data))
    assert blocks.take(len(data), "the payload") == data
    assert blocks.offset == len(data)


def test_large_payloads_are_read_straight_into_their_own_bytes():
    class Stream:
        def __init__(self):
            self.asked = []

        def read(self, size):
            self.asked.append(size)
            return bytes(size)

    stream = Stream()
    blocks = Blocks(stream)
    blocks.mean = 1e6
    blocks.peek()
    blocks.skip(512)
    blocks.take(1_000_000, "the payload")
    blocks.skip(448)
    blocks.peek()
    assert stream.asked == [512, 1_000_000, 448 + 512]
    assert blocks.offset == 512 + 1_000_448


def test_a_read_that_a_wrapper_changes_is_the_one_that_counts():
    class Upper:
        def __init__(self, stream):
            self._stream = stream

        def read(self, size):
            return self._stream.read(size).upper()

        def __getattr__(self, name):
            return getattr(self._stream, name)

    class Lifted(io.BytesIO):
        def read(self, size=-1):
            return super().read(size).upper()

    data = b"a" * 512
    for stream in Upper(io.BytesIO(data)), Lifted(data):
        assert Blocks(stream).peek() == b"A" * 512


def test_a_readinto_of_its_own_is_used():
    class Into(io.BytesIO):
        def read(self, size=-1):
            raise AssertionError("this costs a copy")

        def readinto(self, view):
            return super().readinto(view)

    assert Blocks(Into(b"a" * 512)).peek() == b"a" * 512


def test_what_was_looked_at_can_be_read_again(trickle):
    blocks = Blocks(trickle(b"a" * 512 + b"b" * 512, step=700, failure=StoreError("reset by peer")), window=512)
    assert blocks.peek() == b"a" * 512
    assert blocks.read(100) + blocks.read(1000) + blocks.read(1000) == b"a" * 512 + b"b" * 512
    assert blocks.offset == 1024
    with pytest.raises(StoreError, match="reset by peer"):
        blocks.read(1)


@settings(max_examples=8)
@given(st.lists(archives(), min_size=2, max_size=4), st.sampled_from([512, 8192, 10240]))
def test_memory_of_an_earlier_reading_changes_nothing(several, size):
    """Whole, cut, damaged, compressed archives, and one that is left early, all read into the same memory."""
    memory = new_window(size)
    for archive in several:
        for data in (
            archive,
            archive[: len(archive) // 2 | 1],
            archive.replace(b"ustar", b"vstar", 1),
            compress(archive),
        ):
            assert outcome(data, window=size, memory=memory) == outcome(data, window=size)
            with suppress(FormatError):
                next(read_runs(data, window=size, memory=memory, on_skip=lambda *_: None), None)
