"""Where shard tasks run: in this process, on local processes, on Dask, on Ray, on any executor of the user's."""

from __future__ import annotations

import concurrent.futures as cf
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from webdataset.child_processes import exit_on
from webdataset.errors import SpecError
from webdataset.optional import require

ENGINES = ("local", "dask", "ray")

# Seconds that a worker without a driver has for cleaning up.
_PATIENCE = 10.0

# Tasks that are submitted at a time to an executor of unknown size.
_MANY = 1000


def _close_nothing() -> None:
    """Do nothing: the executor belongs to the user."""


class Submits(Protocol):
    """Anything with the `submit` of `concurrent.futures`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Begin `fn(*args)` and return its future."""
        ...


class Engine:
    """An executor, how many tasks are submitted at a time, and a function that closes what was started for it.

    >>> Engine(InThisProcess(), 1).submit(abs, -2).result()
    2
    """

    def __init__(self, executor: Submits, width: int = _MANY, close: Callable[[], object] = _close_nothing) -> None:
        self._executor, self.width, self.close = executor, width, close

    def submit(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Begin `fn(*args)` on a worker."""
        try:
            return self._executor.submit(fn, *args)
        except cf.BrokenExecutor as error:  # a worker died: the task is lost like those that were running
            return _failed(error)

    def restart(self) -> bool:
        """Replace the workers after one was lost; False if this executor cannot."""
        return False

    def cancel(self) -> None:
        """Stop the running tasks after an interrupt or an error."""


class InThisProcess:
    """Runs a task when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> cf.Future[Any]:
        """Run `fn(*args)` now; the future that is returned is done."""
        future: cf.Future[Any] = cf.Future()
        try:
            future.set_result(fn(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class LocalProcesses(Engine):
    """Worker processes of this machine. A lost one is replaced."""

    def __init__(self, workers: int) -> None:
        self._pool = _new_pool(workers)
        super().__init__(self._pool, workers, self._end)

    def submit(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Begin `fn(*args)` on a worker."""
        return super().submit(_run_or_stop, fn, *args)

    def restart(self) -> bool:
        """Start new processes."""
        self._end()
        self._executor = self._pool = _new_pool(self.width)
        return True

    def cancel(self) -> None:
        """End the workers, which remove their unfinished outputs."""
        for process in list((self._pool._processes or {}).values()):
            process.terminate()

    def _end(self) -> None:
        """End the workers after their running tasks."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _failed(error: BaseException) -> cf.Future[Any]:
    future: cf.Future[Any] = cf.Future()
    future.set_exception(error)
    return future


def _new_pool(workers: int) -> cf.ProcessPoolExecutor:
    # A forked child of a process with threads may hang, so children start afresh.
    return cf.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin_worker)


def _begin_worker() -> None:
    """Ignore Ctrl-C and SIGHUP, which the driver handles; end on SIGTERM, and when the driver has ended."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    exit_on(signal.SIGTERM, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _run_or_stop(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        return fn(*args)
    except SystemExit:
        os._exit(1)  # the pool would treat it as a result and give this worker the next task


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)  # the main thread cleans up and ends, unless it hangs
        threading.Event().wait(_PATIENCE)
        os._exit(1)


@contextmanager
def open_engine(executor: Any, workers: int, address: str | None = None) -> Iterator[Engine]:
    """The engine that a user chose; what is started here is closed at the end of the block.

    >>> with open_engine(None, 1) as engine:
    ...     engine.submit(abs, -2).result()
    2

    Args:
        executor: None or "local", "dask", "ray", or anything with the `submit` of `concurrent.futures`.
        workers: the number of worker processes to start.
        address: of a running Dask scheduler or Ray cluster, in place of starting one.
    """
    engine = _engine(executor, workers, address)
    try:
        yield engine
    except BaseException:
        engine.cancel()
        raise
    finally:
        engine.close()


def _engine(executor: Any, workers: int, address: str | None) -> Engine:
    if workers < 1:
        raise SpecError(f"expected at least one worker, got {workers}", hint="use -j 1, or more")
    if executor is None or executor == "local":
        return LocalProcesses(workers) if workers > 1 else Engine(InThisProcess(), 1)
    if executor == "dask":
        return _dask(workers, address)
    if executor == "ray":
        return _ray(workers, address)
    if callable(getattr(executor, "submit", None)):
        return Engine(executor)
    raise SpecError(f"engine={executor!r}: expected {', '.join(ENGINES)}, or an object with submit()")


def _dask(workers: int, address: str | None) -> Engine:
    """A Dask cluster: a running one, or a new one."""
    distributed = require("distributed", extra="dask", why="for the Dask engine")
    start = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    client = distributed.Client(set_as_default=False, **({"address": address} if address else start))
    cluster = client.cluster

    def close() -> None:
        client.close()
        if cluster is not None:
            cluster.close()

    return Engine(client.get_executor(pure=False), close=close)


def _ray(workers: int, address: str | None) -> Engine:
    """Ray: a running cluster, or a new one. A session that the program began is used, and stays open."""
    ray = require("ray", extra="ray", why="for the Ray engine")
    ours = not ray.is_initialized()
    if ours:
        options = {"address": address} if address else {"num_cpus": workers, "include_dashboard": False}
        ray.init(log_to_driver=False, configure_logging=False, **options)
    return Engine(_RayTasks(ray), close=ray.shutdown if ours else _close_nothing)


class _RayTasks:
    def __init__(self, ray: Any) -> None:
        self._run = ray.remote(_call)

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        return self._run.remote(fn, *args).future()


def _call(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)
