"""Work that takes longer than a request: it is started once, has a progress, and can be cancelled."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any

from webdataset import stores
from webdataset.errors import ShardNotFound, SpecError, WebDatasetError
from webdataset.mutex import Mutex

_MOST_KEPT = 24
_MOST_RUNNING = 4


class JobState(StrEnum):
    """The state of a job."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CancelledError(Exception):
    """The job was cancelled."""


class Job:
    """One job. Its function calls `advance`, which raises an error once the job is cancelled.

    Attributes:
        number: its number.
        partial: the result so far; the function may replace it.
        result: the value that the function returned.
    """

    thread: threading.Thread  # the thread that it runs on

    def __init__(self, number: int, name: str) -> None:
        self.number, self.name = number, name
        self.state = JobState.RUNNING
        self.done = self.total = 0
        self.error: dict[str, str] | None = None
        self.partial: Any = None
        self.result: Any = None
        self._cancelled = threading.Event()

    def advance(self, count: int = 1, total: int | None = None) -> None:
        """Add to the progress."""
        if self._cancelled.is_set():
            raise CancelledError
        self.done += count
        self.total = self.total if total is None else total

    def cancel(self) -> None:
        """Stop at the next call of `advance`."""
        self._cancelled.set()

    def run(self, function: Callable[[Job], Any]) -> None:
        """Run the function and keep what it returns or raises."""
        try:
            self.result = function(self)
            self.state = JobState.DONE
        except CancelledError:
            self.state = JobState.CANCELLED
        except Exception as error:  # shown in the page
            self.error = error_words(error)
            self.state = JobState.FAILED

    def words(self) -> dict[str, Any]:
        """The job as JSON."""
        return {
            "job": self.number,
            "name": self.name,
            "state": self.state.value,
            "done": self.done,
            "total": self.total,
            "error": self.error,
        }


class Jobs:
    """The jobs of a server. The same work is started once; old results are dropped.

    >>> jobs = Jobs()
    >>> job = jobs.start("sum", ("sum", 3), lambda job: 1 + 2)
    >>> jobs.close()
    >>> job.result, jobs.get(job.number) is job
    (3, True)

    Args:
        ending: is set when the server ends: waits for a store are then cancelled.
    """

    def __init__(self, ending: threading.Event | None = None) -> None:
        self._ending = ending or threading.Event()
        self._numbers = itertools.count(1)
        self._jobs: OrderedDict[int, Job] = OrderedDict()
        self._keys: dict[Any, int] = {}
        self._lock = Mutex()

    def start(self, name: str, key: Any, function: Callable[[Job], Any]) -> Job:
        """The job for `key`: a running or finished one, or a new one."""
        with self._lock:
            known = self._jobs.get(self._keys.get(key, 0))
            if known is not None and known.state in {JobState.RUNNING, JobState.DONE}:
                return known
            running = [job for job in self._jobs.values() if job.state is JobState.RUNNING]
            if len(running) >= _MOST_RUNNING:
                raise SpecError(f"{len(running)} jobs are running", hint="wait for one, or cancel one")
            job = Job(next(self._numbers), name)
            self._jobs[job.number], self._keys[key] = job, job.number
            self._drop_old()
            run = partial(self._run, job, function)
            job.thread = threading.Thread(target=run, name=f"wds-view-{name}", daemon=True)
            job.thread.start()
        return job

    def _run(self, job: Job, function: Callable[[Job], Any]) -> None:
        with stores.abandonable(self._ending):
            job.run(function)

    def get(self, number: int) -> Job:
        """A job by number."""
        job = self._jobs.get(number)
        if job is None:
            raise ShardNotFound(f"there is no job {number}", hint="start it again: results are dropped after a while")
        return job

    def close(self) -> None:
        """Cancel all jobs and wait for them."""
        jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        for job in jobs:
            job.thread.join()

    def _drop_old(self) -> None:
        for number, job in list(self._jobs.items()):
            if len(self._jobs) <= _MOST_KEPT:
                return
            if job.state is not JobState.RUNNING:
                del self._jobs[number]


def error_words(error: BaseException) -> dict[str, str]:
    """An error as JSON: what happened, where, what to do.

    >>> error_words(ValueError("expected 3"))
    {'kind': 'ValueError', 'error': 'expected 3', 'where': '', 'remedy': ''}
    """
    kind = type(error).__name__
    if isinstance(error, WebDatasetError):
        return {"kind": kind, "error": error.what, "where": str(error.where), "remedy": error.hint or ""}
    text = stores.redacted(str(error.args[0])) if error.args else kind
    return {"kind": kind, "error": text, "where": "", "remedy": ""}
