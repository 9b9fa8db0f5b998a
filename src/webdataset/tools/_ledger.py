"""Which shards of a job are finished: a text file of JSON lines, so that a killed job can continue.

The first line names the job and the columns. Each other line is one finished shard, as a list, or a quarantined one; it
is appended and synced to disk after the shard itself was published. A kill can leave an output without its line, which
is then written again, or half a line, which is removed.
"""

from __future__ import annotations

import json
import os
from collections import UserDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from webdataset.address import as_checkpoint
from webdataset.errors import FormatError, SpecError, StateError, StoreError, WebDatasetError, Where
from webdataset.redact import redacted
from webdataset.stores import lock_file, remove_lock

from ._shard_task import ShardResult

KIND = "webdataset-ledger-1"
T = TypeVar("T")


class _ByAddress(UserDict[str, T]):
    """Addresses without their secrets: the file has none, and a new signature does not make it another shard."""

    def __getitem__(self, url: str) -> T:
        return super().__getitem__(as_checkpoint(url))

    def __setitem__(self, url: str, value: T) -> None:
        super().__setitem__(as_checkpoint(url), value)

    def __delitem__(self, url: str) -> None:
        super().__delitem__(as_checkpoint(url))

    def __contains__(self, url: object) -> bool:
        return isinstance(url, str) and super().__contains__(as_checkpoint(url))


class Ledger:
    """The finished shards of one job.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/ledger.jsonl"
    >>> with Ledger(path, "copy") as ledger:
    ...     ledger.begin()
    ...     ledger.finish(ShardResult("a.tar", "b.tar", 3, 3, 30, 1024, "5d41"))
    >>> with Ledger(path, "copy") as ledger:
    ...     ledger.fresh, ledger.finished["a.tar"].samples_out
    (False, 3)

    Args:
        path: a local file.
        job: what the job does; a ledger of another job is refused.
        restart: discard the content of the file.
    """

    def __init__(self, path: str | os.PathLike[str], job: str, *, restart: bool = False) -> None:
        self.path = Path(path)
        self.job = job = redacted(job)
        self.finished: _ByAddress[ShardResult] = _ByAddress()
        self.quarantined: _ByAddress[str] = _ByAddress()
        with self._disk_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as undo:
                self._lock(undo)
                # Without a buffer: what a full disk did not take is not written again when the file is closed.
                self._file = undo.enter_context(self.path.open("a+b", buffering=0))
                undo.callback(self._remove_empty)  # the job was refused before it began
                if restart:
                    self._file.truncate(0)
                self.fresh = not self._load(job)
                self._opened = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._disk_errors():
            self._opened.close()

    def begin(self) -> None:
        """Write the first line of a fresh ledger: from now on the outputs belong to this job."""
        if self.fresh:
            self._append({"ledger": KIND, "job": self.job, "columns": ShardResult._fields})

    def finish(self, result: ShardResult) -> None:
        """Record a shard whose output is published."""
        self._append(list(result._replace(input=as_checkpoint(result.input), output=as_checkpoint(result.output))))
        self._note(result)

    def quarantine(self, url: str, error: str) -> None:
        """Record a shard that failed, so that the next run leaves it out."""
        self._append({"input": as_checkpoint(url), "quarantined": redacted(error)})
        self.quarantined[url] = error

    def _note(self, result: ShardResult) -> None:
        self.finished[result.input] = result
        self.quarantined.pop(result.input, None)

    def _lock(self, undo: ExitStack) -> None:
        """The file is made, changed and removed under a lock only: no other process can have begun to write it."""
        lock = lock_file(f"{self.path}.lock")
        if lock is None:
            raise StateError(
                "another process works on this job", Where(shard=str(self.path)), hint="wait for it, or stop it"
            )
        undo.callback(remove_lock, lock)

    def _remove_empty(self) -> None:
        if not os.fstat(self._file.fileno()).st_size:
            self.path.unlink()

    def _append(self, line: dict[str, Any] | list[Any]) -> None:
        rest = memoryview(json.dumps(line).encode() + b"\n")
        with self._disk_errors():
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Turn errors of the disk into typed errors; the next run continues after the last complete line."""
        try:
            yield
        except WebDatasetError:
            raise
        except OSError as error:
            raise StoreError(
                f"the ledger of the job cannot be used: {error.strerror or error}",
                Where(shard=str(self.path)),
                hint="check its disk and run again, finished shards are skipped; or name a ledger on another disk",
            ) from error

    def _load(self, job: str) -> bool:
        """Read the file; returns whether it has a first line."""
        self._file.seek(0)
        data = self._file.readall()
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            self._file.truncate(whole)  # a line that a kill cut short
        lines = data[:whole].splitlines()
        for number, line in enumerate(self._parsed(lines), 1):
            try:
                self._apply(line, job if number == 1 else None)
            except (TypeError, KeyError, AttributeError) as error:
                raise self._damaged(number) from error
        return bool(lines)

    def _parsed(self, lines: list[bytes]) -> list[Any]:
        try:
            found: list[Any] = json.loads(b"[%s]" % b",".join(lines))  # at once: a third of the time
        except ValueError:
            for number, line in enumerate(lines, 1):
                try:
                    json.loads(line)
                except ValueError as error:
                    raise self._damaged(number) from error
            raise
        if len(found) != len(lines):
            raise self._damaged(1)
        return found

    def _damaged(self, number: int) -> FormatError:
        return FormatError(
            f"line {number} of the ledger cannot be read",
            Where(shard=str(self.path)),
            hint="start over with --force, or name another ledger",
        )

    def _apply(self, line: Any, job: str | None) -> None:
        if job is not None:
            self._check_job(line, job)
        elif isinstance(line, list):
            self._note(ShardResult._make(line))
        else:
            self.quarantined[line["input"]] = line["quarantined"]

    def _check_job(self, head: dict[str, Any], job: str) -> None:
        if head.get("ledger") != KIND:
            raise SpecError("this file is not a ledger", Where(shard=str(self.path)), hint="name another ledger")
        if head.get("job") != job:
            raise SpecError(
                f"the outputs belong to another job: expected {job!r}, got {head.get('job')!r}",
                Where(shard=str(self.path)),
                hint="write elsewhere, or replace them with --force",
            )
