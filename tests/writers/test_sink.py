"""Streams of other people: written to, completely, and never closed."""

import io
import logging
import os

import pytest

from webdataset.errors import SpecError, StoreError
from webdataset.writers._sink import Sink

MEGABYTE = bytes(range(256)) * 4096


class Hesitant(io.RawIOBase):
    """Takes at most 1000 bytes at a time, as raw streams may."""

    def __init__(self):
        self.data = b""

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data[:1000])
        return min(len(data), 1000)


class Silent:
    """Has nothing but a write that says nothing."""

    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += data


class Full(Silent):
    def write(self, data):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stream", [Hesitant(), Silent()])
def test_all_bytes_arrive(stream):
    sink = Sink(stream, None)
    sink.write([b"a", b"b" * 5000], 5001)
    sink.write([MEGABYTE] * 5, 5 * len(MEGABYTE))
    sink.close()
    assert stream.data == b"a" + b"b" * 5000 + MEGABYTE * 5


def test_a_stream_that_takes_nothing_is_an_error():
    stuck = Hesitant()
    stuck.write = lambda data: 0
    sink = Sink(stuck, None)
    with pytest.raises(StoreError, match="not accept more bytes"):
        sink.write([MEGABYTE], len(MEGABYTE))


def test_other_peoples_streams_are_flushed_and_stay_open(tmp_path):
    with open(tmp_path / "a", "wb") as stream:
        sink = Sink(stream, None)
        sink.write([b"abc"], 3)
        sink.close()
        assert not stream.closed
        assert (tmp_path / "a").read_bytes() == b"abc"


def test_after_a_failure_nothing_goes_on_and_close_says_so():
    sink = Sink(Full(), None)
    with pytest.raises(OSError, match="No space left"):
        sink.write([MEGABYTE], len(MEGABYTE))
    with pytest.raises(StoreError, match="discarded"):
        sink.require_open()
    with pytest.raises(StoreError, match=r"not published.*No space left"):
        sink.close()
    sink.close()


def test_a_failure_while_closing_is_raised():
    sink = Sink(Full(), None)
    sink.write([b"a"], 1)
    with pytest.raises(OSError, match="No space left"):
        sink.close()
    assert sink.state == "discarded"


def test_forgotten_sinks_publish_nothing_and_complain(tmp_path, caplog):
    sink = Sink(str(tmp_path / "a.tar"), None)
    sink.write([b"abc"], 3)
    with caplog.at_level(logging.WARNING):
        del sink
    assert "never closed" in caplog.text
    assert not list(tmp_path.iterdir())


def test_a_forked_copy_leaves_the_file_alone(tmp_path):
    sink = Sink(str(tmp_path / "a.tar"), None)
    sink.write([b"abc"], 3)
    child = os.fork()
    if child == 0:
        sink.__del__()
        os._exit(0 if sink.state == "open" else 1)
    assert os.waitpid(child, 0)[1] == 0
    sink.close()
    assert (tmp_path / "a.tar").read_bytes() == b"abc"


@pytest.mark.parametrize("target", [None, 3, b"a.tar", object()])
def test_targets_that_cannot_be_written(target):
    with pytest.raises(SpecError, match="cannot be written to"):
        Sink(target, None)


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "link"])
def test_a_pipe_is_written_through_whatever_its_name(tmp_path, name):
    """A shell's `>(command)` is such a link, and so is /dev/stdout: they lead to no file that could be replaced."""
    reading, writing = os.pipe()
    try:
        path = tmp_path / "link" if name == "link" else name.format(writing)
        if name == "link":
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to("pipe")
            os.close(reading)
            reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        sink = Sink(str(path), None)
        sink.write([b"abc"], 3)
        sink.close()
        assert os.read(reading, 10) == b"abc"
    finally:
        os.close(reading)
        os.close(writing)


def test_a_named_pipe_is_written_through(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        sink = Sink(str(tmp_path / "pipe"), None)
        sink.write([b"abc"], 3)
        sink.close()
        assert os.read(reader, 10) == b"abc"
        Sink(str(tmp_path / "pipe"), None).abort()
    finally:
        os.close(reader)
