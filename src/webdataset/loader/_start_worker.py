"""The first call in a worker process, and the errors about one that did not start or that died."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from webdataset.child_processes import Parent, end_with
from webdataset.errors import StageError, WebDatasetError
from webdataset.pipeline import SpawnPickling

from ._shared_memory import KILLED

_FAILED = (
    "the error is printed above. If the program runs itself again there: put what it does under "
    'if __name__ == "__main__":. If something cannot be imported or unpickled there: define it in a module'
)


@dataclass(frozen=True)
class StartWorker(SpawnPickling):
    """torch's `worker_init_fn`: make the worker end when its parent ends, then call the user's `worker_init_fn`.

    torch's own workers check every few seconds whether their parent is alive. If it is not, they wait until all their
    messages have been received: for ever, because the process that would receive them is gone.
    """

    parent: Parent
    then: Callable[[int], Any] | None = None

    def __call__(self, worker: int) -> None:
        end_with(self.parent)
        if self.then is not None:
            self.then(worker)


def not_started(error: OSError) -> WebDatasetError:
    """Return the error for worker processes that the system could not start.

    >>> print(not_started(OSError(24, "Too many open files")))
    the worker processes cannot be started: Too many open files – check the limits of the system ...
    """
    if isinstance(error, WebDatasetError):
        return error
    # Its frames refer to torch's iterator, which ends the workers that were started already when it is deleted.
    error.__traceback__ = None
    return StageError(
        f"the worker processes cannot be started: {error.strerror or error}",
        hint="check the limits of the system (ulimit -n, ulimit -u, free memory), or use fewer workers",
    )


def worker_error(error: RuntimeError, workers: Iterable[Any]) -> RuntimeError:
    """Return torch's error about a worker that died with a hint added; return any other error unchanged.

    >>> print(worker_error(RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed."), []))
    DataLoader worker (pid 7) is killed by signal: Killed – a worker that ends without an error ...
    >>> print(worker_error(RuntimeError("DataLoader worker (pid 7) exited unexpectedly with exit code 1. …"), []))
    DataLoader worker (pid 7) exited unexpectedly with exit code 1. … – the error is printed ...
    """
    text = str(error)
    if not text.startswith("DataLoader worker"):
        return error
    failed = "with exit code" in text or any((worker.exitcode or 0) > 0 for worker in workers)
    return StageError(text.rstrip("."), hint=_FAILED if failed else KILLED)
