"""A local file whose next bytes can be read by a thread, while the reader is busy with those before them."""

from __future__ import annotations

import io
import os
import threading
from contextlib import suppress
from queue import SimpleQueue

_Answer = int | BaseException


class SoonReader(io.BufferedReader):
    """A buffered file with two more methods; the thread starts with the first `read_soon` and ends with `close`.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"hello world")
    ...     file.flush()
    ...     with SoonReader(io.FileIO(file.name)) as reader:
    ...         memory = bytearray(5)
    ...         reader.read_soon(memoryview(memory))
    ...         reader.take_soon(), bytes(memory), reader.read()
    (5, b'hello', b' world')
    """

    _thread: threading.Thread | None = None
    _waiting: memoryview | None = None
    _process = 0

    def read_soon(self, view: memoryview) -> None:
        """Begin to fill this memory with the bytes from the present position on. Ask for one piece at a time."""
        if self._thread is None:
            self._start()
        self._waiting = view
        if self._process == os.getpid():
            self._requests.put((view, self.tell()))

    def take_soon(self) -> int:
        """Wait for the bytes that were asked for; their number, 0 at the end. The position is after them now."""
        view, self._waiting = self._waiting, None
        assert view is not None
        if self._process == os.getpid():
            answer: _Answer = self._answers.get()
        else:  # this process was forked since then; the thread was not
            answer = _read(self.fileno(), view, self.tell())
        if isinstance(answer, BaseException):
            raise answer
        self.seek(answer, os.SEEK_CUR)
        return answer

    def forget_soon(self) -> None:
        """The bytes that were asked for are not wanted; the position stays as it is."""
        if self._waiting is not None:
            self._waiting = None
            if self._process == os.getpid():
                self._answers.get()

    def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None and self._process == os.getpid():
            self._requests.put(None)
            thread.join()
        super().close()

    def _start(self) -> None:
        self._requests: SimpleQueue[tuple[memoryview, int] | None] = SimpleQueue()
        self._answers: SimpleQueue[_Answer] = SimpleQueue()
        # The thread knows the descriptor and not the file: a file that no one refers to is closed, and ends its thread.
        known = (self.fileno(), self._requests, self._answers)
        thread = threading.Thread(target=_serve, args=known, name="webdataset-soon", daemon=True)
        with suppress(RuntimeError):  # the system has no more threads: then the reader reads, as in a forked process
            thread.start()
            self._thread, self._process = thread, os.getpid()


def _serve(
    descriptor: int, requests: SimpleQueue[tuple[memoryview, int] | None], answers: SimpleQueue[_Answer]
) -> None:
    while (request := requests.get()) is not None:
        answers.put(_read(descriptor, *request))
        del request  # or its memory would be kept until the next one


def _read(descriptor: int, view: memoryview, position: int) -> _Answer:
    """Fill the memory, or as much of it as the file has."""
    count = 0
    try:
        while count < len(view) and (more := os.preadv(descriptor, [view[count:]], position + count)):
            count += more
    except BaseException as error:  # a thread that dies would let its reader wait for ever
        return count or error  # bytes before a failure are read; the next request meets it
    return count
