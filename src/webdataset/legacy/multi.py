"""`webdataset.multi`: worker processes without torch."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from webdataset import world
from webdataset.arguments import require_count
from webdataset.child_processes import Parent, end_with
from webdataset.errors import StageError

__all__ = ["MultiLoader"]

_ITEM, _END, _ERROR = range(3)


class MultiLoader:
    """The items of a dataset, read by worker processes, in the order in which they arrive.

    >>> from webdataset.pipeline import DataPipeline
    >>> from webdataset.shards import split_by_worker
    >>> dataset = DataPipeline(range(6), split_by_worker)
    >>> sorted(MultiLoader(dataset, workers=2))
    [0, 1, 2, 3, 4, 5]

    A worker that dies, for any reason, is an error; the loader never waits for it.

    Args:
        dataset: anything that can be iterated; every worker iterates over its own copy, with its own worker number.
        workers: how many.
        verbose: accepted; nothing is printed.
        nokill: leave the workers of an earlier iteration alone when a new one starts.
        prefix: accepted; no socket files are left anywhere.
    """

    def __init__(
        self,
        dataset: Iterable[Any],
        workers: int = 4,
        verbose: bool = False,
        nokill: bool = False,
        prefix: str = "/tmp/_multi-",  # noqa: S108  # never used
    ) -> None:
        self.dataset = dataset
        self.workers = require_count("MultiLoader", "workers", workers, least=1)
        self.verbose = verbose
        self.nokill = nokill
        self.prefix = prefix
        self._running: list[BaseProcess] = []

    def kill(self) -> None:
        """End all worker processes.

        >>> MultiLoader([1]).kill()
        """
        self._end(list(self._running))

    def _end(self, processes: list[BaseProcess]) -> None:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
            process.close()
            self._running.remove(process)

    def __iter__(self) -> Iterator[Any]:
        if not self.nokill:
            self.kill()
        started = [self._start(number) for number in range(self.workers)]
        channels = {channel: process for process, channel in started}
        self._running += channels.values()
        try:
            yield from _receive(channels)
        finally:
            for channel in channels:
                channel.close()
            self._end([process for process in channels.values() if process in self._running])

    def _start(self, number: int) -> tuple[BaseProcess, Connection]:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        current = world.current()
        reader = world.World(current.rank, current.ranks, number, self.workers)
        arguments = (Parent.here(), self.dataset, reader, sender)
        process = multiprocessing.Process(target=_work, args=arguments, daemon=True)
        process.start()
        sender.close()  # so that the worker's end is the only one, and its death is seen here
        return process, receiver


def _receive(channels: dict[Connection, BaseProcess]) -> Iterator[Any]:
    live = set(channels)
    while live:
        for channel in wait(list(live)):
            assert isinstance(channel, Connection)
            try:
                kind, value = channel.recv()
            except EOFError:
                channels[channel].join()
                raise StageError(
                    f"a worker process ended with status {channels[channel].exitcode} before its data did",
                    hint="a status of -9 means that it was killed, probably out of memory",
                ) from None
            if kind == _ERROR:
                raise value
            if kind == _END:
                live.remove(channel)
            else:
                yield value


def _work(parent: Parent, dataset: Iterable[Any], reader: world.World, sender: Connection) -> None:
    end_with(parent)
    with world.pretend(reader):
        try:
            for item in dataset:
                sender.send((_ITEM, item))
        except BrokenPipeError:  # the reader has closed its end
            return
        except Exception as error:
            sender.send((_ERROR, error))
            return
        sender.send((_END, None))
