"""StoreContract: the tests of every store. Subclass it in your tests; pytest runs the methods that it inherits."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from webdataset.errors import ShardNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdataset.stores import Store

_DATA = random.Random(0).randbytes(300_000)


class StoreContract(ABC):
    """The tests that every store passes.

    >>> from webdataset.stores import MemoryStore
    >>> class TestMemory(StoreContract):
    ...     memory = MemoryStore()
    ...     def store(self):
    ...         return self.memory
    ...     def address(self, name):
    ...         return f"memory://contract/{name}"
    >>> TestMemory().test_reads_from_any_offset()

    Set class attributes to False for operations that the store does not support: `writes`, `lists`, `knows_sizes`.
    """

    writes = True
    lists = True
    knows_sizes = True

    @abstractmethod
    def store(self) -> Store:
        """The store under test."""

    @abstractmethod
    def address(self, name: str) -> str:
        """The address of an object of this name, in a folder that only this test uses."""

    def put(self, name: str, data: bytes) -> str:
        """Store an object; override it for stores that cannot be written to."""
        with self.store().open_write(self.address(name)) as stream:
            stream.write(data)
        return self.address(name)

    def get(self, url: str) -> bytes:
        """All of an object."""
        with self.store().open_read(url) as stream:
            data: bytes = stream.read()
        return data

    def test_reads_what_was_written(self) -> None:
        for size in (0, 1, 511, 300_000):
            url = self.put(f"size-{size}.bin", _DATA[:size])
            assert self.get(url) == _DATA[:size]

    def test_reads_from_any_offset(self) -> None:
        url = self.put("offset.bin", _DATA)
        for start in (1, 512, 299_999, 300_000):
            with self.store().open_read(url, start) as stream:
                assert stream.read() == _DATA[start:], start

    def test_read_returns_as_much_as_was_asked_for(self) -> None:
        url = self.put("pieces.bin", _DATA)
        rng, pieces = random.Random(1), []
        with self.store().open_read(url) as stream:
            while True:
                size = rng.choice([1, 512, 70_000])
                piece = stream.read(size)
                pieces.append(piece)
                if len(piece) < size:
                    break
            assert stream.read(1) == b""
            assert stream.read() == b""
        assert b"".join(pieces) == _DATA

    def test_readinto(self) -> None:
        url = self.put("into.bin", _DATA)
        buffer, found = bytearray(1000), b""
        with self.store().open_read(url) as stream:
            while count := stream.readinto(buffer):
                found += buffer[:count]
        assert found == _DATA

    def test_closes_early_and_twice(self) -> None:
        url = self.put("close.bin", _DATA)
        stream = self.store().open_read(url)
        stream.read(10)
        stream.close()
        stream.close()

    def test_ranges_are_exact_or_an_error(self) -> None:
        url = self.put("range.bin", _DATA)
        store = self.store()
        assert store.read_range(url, 0, 10) == _DATA[:10]
        assert store.read_range(url, 100_000, 50_000) == _DATA[100_000:150_000]
        assert store.read_range(url, 299_990, 10) == _DATA[299_990:]
        assert store.read_range(url, 5, 0) == b""
        raises(StoreError, lambda: store.read_range(url, 299_990, 11))

    def test_what_is_not_there_is_not_found(self) -> None:
        url = self.address("missing.bin")
        error = raises(ShardNotFound, lambda: self.get(url))
        assert isinstance(error, FileNotFoundError)
        assert "missing.bin" in str(error)

    def test_stat(self) -> None:
        if not self.knows_sizes:
            return
        url = self.put("stat.bin", _DATA)
        assert self.store().stat(url).size == len(_DATA)
        raises(ShardNotFound, lambda: self.store().stat(self.address("missing.bin")))

    def test_the_version_of_a_stream_is_that_of_stat(self) -> None:
        """A cache compares the two before it continues a download."""
        url = self.put("version.bin", _DATA)
        with self.store().open_read(url) as stream:
            version = getattr(stream, "version", None)
        if version is not None:
            assert self.store().stat(url).etag == version

    def test_lists_and_globs(self) -> None:
        if not self.lists:
            return
        for name in ("train-1.tar", "train-0.tar", "val-0.tar", "deep/train-2.tar"):
            self.put(f"list/{name}", b"x")
        listed = sorted(self.store().glob(self.address("list/train-*.tar")))
        assert listed == [self.address("list/train-0.tar"), self.address("list/train-1.tar")]
        assert sorted(self.store().glob(self.address("list/"))) == [*listed, self.address("list/val-0.tar")]
        assert sorted(self.store().glob(self.address("list/nothing-*"))) == []

    def test_an_aborted_upload_is_never_seen(self) -> None:
        if not self.writes:
            return
        stream = self.store().open_write(self.address("aborted.bin"))
        stream.write(_DATA)
        stream.abort()
        raises(ShardNotFound, lambda: self.get(self.address("aborted.bin")))

    def test_an_exception_keeps_what_was_there(self) -> None:
        if not self.writes:
            return
        url = self.put("kept.bin", b"old")

        def fail() -> None:
            with self.store().open_write(url) as stream:
                stream.write(_DATA)
                raise KeyError

        raises(KeyError, fail)
        assert self.get(url) == b"old"

    def test_an_upload_replaces_what_was_there_when_it_is_closed(self) -> None:
        if not self.writes:
            return
        url = self.put("replaced.bin", b"old")
        stream = self.store().open_write(url)
        for at in range(0, len(_DATA), 70_000):
            stream.write(_DATA[at : at + 70_000])
        assert self.get(url) == b"old"
        stream.close()
        stream.close()
        assert self.get(url) == _DATA


def raises(kind: type[BaseException], action: Callable[[], Any]) -> BaseException:
    """The exception of this kind that the action must raise.

    >>> raises(ZeroDivisionError, lambda: 1 / 0)
    ZeroDivisionError('division by zero')
    """
    try:
        action()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
