"""Run the tasks of a job on any engine; a killed job continues where it stopped.

A task makes one output of one input. A worker publishes the complete output; only then the driver records it in the
ledger. So the outputs are the same bytes for any number of workers, any engine, and any number of interruptions.
"""

from __future__ import annotations

import concurrent.futures as cf
import gc
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from webdataset import stores
from webdataset.address import as_checkpoint, in_use
from webdataset.arguments import require_choice
from webdataset.errors import SpecError, StoreError, WebDatasetError, Where, add_where
from webdataset.flow import digest
from webdataset.index import Description, ShardEntry
from webdataset.redact import redacted

from ._engines import Engine, open_engine
from ._ledger import Ledger
from ._output_target import existing, refuse_description, refuse_existing, store_description
from ._read_inputs import warn_of_lacking
from ._report import ERRORS, Failure, Report
from ._shard_task import ShardResult
from ._stored_versions import MISSING, Version, by_folder, versions_of
from ._verb_options import Options

_log = logging.getLogger(__name__)

_DIED = (
    "look for a lack of memory, and test the shard with one worker; workers import a Python program again: put its "
    'start under `if __name__ == "__main__":` and its functions above it'
)


class Task(Protocol):
    """The work on one input. It is sent to a worker, so it must pickle."""

    @property
    def input(self) -> str:
        """The address of the input."""
        ...

    def run(self) -> ShardResult:
        """Do the work: the output appears when it is complete, or not at all."""
        ...


def run_tasks(
    pairs: Sequence[tuple[str, str]],
    make_task: Callable[[str, str], Task],
    options: Options,
    *,
    job: str,
    pattern: str | None = None,
) -> Report:
    """Make the outputs that are not finished yet.

    Args:
        pairs: the address of each input and of its output.
        make_task: returns the task for an input and an output; called for those that are not finished.
        options: engine, workers, errors, ledger, …
        job: what the tasks do, in words that are the same in every run.
        pattern: the text that the name of the ledger depends on; by default the outputs.
    """
    require_choice("errors", options.errors, ERRORS)
    urls, names = [url for url, _ in pairs], in_use(name for _, name in pairs)
    pairs = list(zip(urls, names, strict=True))
    refuse_description(options.description, names)
    path = options.ledger or _default_ledger(names, pattern)
    if options.dry_run:
        if not os.path.exists(path):
            _refuse_existing(names, options)
        return Report(outputs=tuple(names))
    with _no_collection():
        ledger = Ledger(path, job, restart=options.force)
    with ledger:
        if ledger.fresh:
            _refuse_existing(names, options)
        ledger.begin()
        with _no_collection():
            todo = [make_task(*pair) for pair in _unfinished(pairs, ledger, retry=options.retry)]
        run = _Run(ledger, options.errors, options.advance or _ignore)
        if todo:
            with open_engine(options.engine, options.workers, options.address) as engine:
                run.execute(todo, engine)
            _remove_unfinished(names)
        if options.description is not None and not run.failed:
            _describe(options.description, [ledger.finished[url] for url in urls if url in ledger.finished])
    return _report(urls, ledger, run)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's garbage collector, which takes a fifth of the time for 100,000 finished shards."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _report(urls: Sequence[str], ledger: Ledger, run: _Run) -> Report:
    failed = run.failed + [Failure(url, ledger.quarantined[url]) for url in urls if url in ledger.quarantined]
    failed += [
        Failure(f"{redacted(result.input)}: {key}", error) for result in run.done for key, error in result.failed
    ]
    finished = [ledger.finished[url] for url in urls if url in ledger.finished]
    warn_of_lacking((result.samples_in, result.lacking) for result in finished)
    return Report(
        samples_in=sum(result.samples_in for result in run.done),
        samples_out=sum(result.samples_out for result in run.done),
        bytes_out=sum(result.bytes_out for result in run.done),
        done=len(run.done),
        skipped=len(finished) - len(run.done),
        failed=tuple(failed),
        outputs=tuple(result.output for result in finished if result.filesize != MISSING),
    )


@dataclass
class _Run:
    """Runs tasks, and collects their results."""

    ledger: Ledger
    errors: str
    advance: Callable[[int], None]
    done: list[ShardResult] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    stopped: Exception | None = None

    def execute(self, tasks: Iterable[Task], engine: Engine) -> None:
        """Submit as many tasks as the engine takes at a time, until all have ended or one stops the job."""
        waiting = iter(tasks)
        working: dict[Any, Task] = {}
        while True:
            while len(working) < engine.width and self.stopped is None and (task := next(waiting, None)) is not None:
                working[engine.submit(task.run)] = task
            if not working:
                break
            lost = [task for future in _ended(working) if self._is_lost(future, task := working.pop(future))]
            if lost:
                suspects = lost + [task for future, task in working.items() if self._is_lost(future, task)]
                working.clear()
                self._run_one_by_one(suspects, engine)
        if self.stopped is not None:
            raise self.stopped

    def _run_one_by_one(self, suspects: Sequence[Task], engine: Engine) -> None:
        """Run the tasks that were running when a worker died again, one at a time, to find the one that caused it."""
        if not engine.restart():
            raise _lost_worker(suspects[0], "run again with a working executor; finished shards are skipped")
        for task in suspects:
            if self._is_lost(engine.submit(task.run), task):
                self._fail(task, _lost_worker(task, _DIED))
                engine.restart()

    def _is_lost(self, future: Any, task: Task) -> bool:
        """Record the result of a task; returns whether the task was lost with its worker."""
        try:
            result = future.result()
        except (cf.BrokenExecutor, cf.CancelledError):
            return True
        except Exception as error:
            self._fail(task, error)
        else:
            self.ledger.finish(result)
            self.done.append(result)
            self.advance(1)
        return False

    def _fail(self, task: Task, error: Exception) -> None:
        if isinstance(error, WebDatasetError):
            add_where(error, shard=task.input)
        failure = Failure.of(task.input, error)
        _log.info("%s failed: %s", redacted(failure.item), failure.error)
        if self.errors == "stop":
            self.stopped = self.stopped or error
            return
        if self.errors == "quarantine":
            self.ledger.quarantine(failure.item, failure.error)
        else:
            self.failed.append(failure)
        self.advance(1)


def _ended(working: dict[Any, Task]) -> list[Any]:
    """Futures that have ended: at least one."""
    futures = list(working)
    if all(isinstance(future, cf.Future) for future in futures):
        return list(cf.wait(futures, return_when=cf.FIRST_COMPLETED).done)
    return futures[:1]  # other kinds of futures are waited for one at a time, the oldest first


def _lost_worker(task: Task, hint: str) -> StoreError:
    return StoreError("the worker process died while it worked on this shard", Where(shard=task.input), hint=hint)


def _default_ledger(names: Sequence[str], pattern: str | None) -> str:
    """The path of the ledger: a hidden file beside the first output."""
    path = stores.is_local(names[0])
    if path is None:
        raise SpecError(
            f"{names[0]!r} is not a local output, so the ledger cannot be stored next to it",
            hint="name a local file: --ledger job.jsonl",
        )
    text = "\n".join(names) if pattern is None else pattern
    return os.path.join(os.path.dirname(path), f".wds-{digest(text):016x}.jsonl")  # noqa: PTH118, PTH120 - addresses


def _remove_unfinished(names: Sequence[str]) -> None:
    """Remove the unfinished files that killed workers of an earlier run left beside local outputs."""
    for folder, files in by_folder(names).items():
        stores.sweep_folder(folder, files)


def _refuse_existing(names: Sequence[str], options: Options) -> None:
    versions = versions_of(names)
    found = [name for name in names if versions[name].size not in (MISSING, None)]
    refuse_existing([*found, *existing([options.description])], force=options.force)


def _unfinished(pairs: Sequence[tuple[str, str]], ledger: Ledger, *, retry: bool) -> list[tuple[str, str]]:
    """The (input, output) that are to be made: without a line in the ledger, or with one that is out of date."""
    versions = versions_of([name for pair in pairs if pair[0] in ledger.finished for name in pair])
    todo = []
    for url, output in pairs:
        result = ledger.finished.get(url)
        if result is None:
            if retry or url not in ledger.quarantined:
                ledger.quarantined.pop(url, None)
                todo.append((url, output))
        elif not _still_fits(result, output, versions[url], versions[output]):
            _log.warning("%s was finished before, but its files have changed; it is done again", redacted(url))
            del ledger.finished[url]
            todo.append((url, output))
        else:  # the ledger has no secrets, and the user gets the address as it is
            ledger.finished[url] = result._replace(output=output)
    return todo


def _still_fits(result: ShardResult, output: str, source: Version, made: Version) -> bool:
    """Whether a line of the ledger still matches the files; an input that was removed counts as unchanged."""
    return (
        result.output == as_checkpoint(output)
        and made.size in (result.filesize, None)
        and (source.size in (MISSING, None) or list(source) == result.input_version)
    )


def _describe(description: str, results: Sequence[ShardResult]) -> None:
    entries = [
        ShardEntry(result.output, result.samples_out, result.filesize, result.md5sum or None)
        for result in results
        if result.filesize != MISSING
    ]
    store_description(Description(entries), description)


def _ignore(_count: int) -> None:
    pass
