"""Every shard through a function, in parallel, so that a killed job goes on where it was.

The shard is the unit of work, and the name of an output follows from the name of its input. A worker publishes an
output whole; only then the driver notes it down in the ledger. So the outputs are the same bytes for any number of
workers, any engine, and any number of interruptions.
"""

from __future__ import annotations

import concurrent.futures as cf
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from webdataset import stores
from webdataset.describe import shown
from webdataset.errors import SpecError, StoreError, WebDatasetError, Where, add_where
from webdataset.flow import Stage, digest
from webdataset.index import Description, ShardEntry, seen_from, write_description

from ._engines import Engine, open_engine
from ._ledger import Ledger
from ._read_inputs import Inputs, expand_inputs
from ._report import Failure, Report
from ._shard_task import ShardResult, ShardTask
from ._stored_sizes import by_folder, stored_sizes
from ._target import PerShard, make_folder, parse_target, refuse_existing

ERRORS = ("stop", "skip", "quarantine")

Outputs = str | os.PathLike[str] | Sequence[str] | Callable[[str], str]

_log = logging.getLogger(__name__)


def map_shards(
    fn: Stage | Sequence[Stage],
    inputs: Inputs,
    outputs: Outputs,
    *,
    executor: Any = None,
    workers: int = 1,
    address: str | None = None,
    errors: str = "stop",
    retry: bool = False,
    force: bool = False,
    ledger: str | os.PathLike[str] | None = None,
    job: str | None = None,
    index: bool = True,
    description: str | None = None,
    seed: int = 0,
    advance: Callable[[int], None] | None = None,
) -> Report:
    """Take every shard through stages and write one output shard for each.

    >>> from webdataset.testing import make_shard
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> shards = [make_shard(f"{folder}/{n}.tar", [{"__key__": n, "txt": n}]) for n in "ab"]
    >>> def upper(samples):
    ...     for sample in samples:
    ...         yield {**sample, "txt": sample["txt"].upper()}
    >>> report = map_shards(upper, shards, f"{folder}/out/")
    >>> report.done, report.skipped, map_shards(upper, shards, f"{folder}/out/").skipped
    (2, 0, 2)

    Args:
        fn: a stage (a function from an iterator of samples to an iterator of samples), or several. Fields come as
            bytes; what is returned is encoded by extension.
        inputs: shards, in any form that a dataset takes.
        outputs: a folder ending in `/`, a template with `{name}` or `{stem}`, a list as long as the inputs, or a
            function from input to output.
        executor: "local", "dask", "ray", or anything with the `submit` of `concurrent.futures`.
        workers: worker processes to start; 1 works in this process.
        address: of a running Dask or Ray cluster.
        errors: what a shard that fails means: "stop" ends the job after the shards at work; "skip" goes on, and the
            next run tries it again; "quarantine" goes on, and the next run leaves it out unless `retry` is set.
        retry: try quarantined shards again.
        force: begin anew and replace outputs that exist.
        ledger: the local file that says what is finished; by default a hidden file beside local outputs.
        job: what this job does, in words that are the same in every run; by default the name of the function. A ledger
            of another job is refused.
        index: store an index beside each output.
        description: where the description of all outputs goes, once all are finished.
        seed: for stages that draw random numbers.
        advance: called with the number of shards finished since the last call.
    """
    if errors not in ERRORS:
        raise SpecError(f"errors={errors!r} is not known", hint=f"take one of {', '.join(ERRORS)}")
    stages = [fn] if callable(fn) else list(fn)
    urls = expand_inputs(inputs)
    names = _output_names(urls, outputs)
    words = job or " | ".join(map(shown, stages)) or "copy"
    with Ledger(_ledger_path(names, outputs, ledger), words, restart=force) as book:
        if book.fresh:
            refuse_existing(_existing(names), force=force)
        book.begin()
        pairs = _unfinished(list(zip(urls, names, strict=True)), book, retry=retry)
        todo = [ShardTask(stages, url, name, index, seed) for url, name in pairs]
        run = _Run(book, errors, advance or _ignore)
        if todo:
            with open_engine(executor, workers, address) as engine:
                run.go(todo, engine)
            _sweep(names)
        failed = run.failed + [Failure(url, book.quarantined[url]) for url in urls if url in book.quarantined]
        failed += [Failure(f"{one.input}: {key}", error) for one in run.done for key, error in one.failed]
        if description is not None and not run.failed:
            _describe(description, [book.finished[url] for url in urls if url in book.finished])
    return Report(
        samples_in=sum(result.samples_in for result in run.done),
        samples_out=sum(result.samples_out for result in run.done),
        bytes_out=sum(result.bytes_out for result in run.done),
        done=len(run.done),
        skipped=sum(url in book.finished for url in urls) - len(run.done),
        failed=tuple(failed),
        outputs=tuple(book.finished[url].output for url in urls if url in book.finished),
    )


@dataclass
class _Run:
    """The tasks of one run, as they end."""

    ledger: Ledger
    errors: str
    advance: Callable[[int], None]
    done: list[ShardResult] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    stopped: Exception | None = None

    def go(self, tasks: Iterable[ShardTask], engine: Engine) -> None:
        """Submit as many tasks as the engine takes at a time, until all have ended or one stops the job."""
        waiting = iter(tasks)
        working: dict[Any, ShardTask] = {}
        while True:
            while len(working) < engine.width and self.stopped is None and (task := next(waiting, None)) is not None:
                working[engine.submit(ShardTask.run, task)] = task
            if not working:
                break
            lost = [task for future in _ended(working) if self._is_lost(future, task := working.pop(future))]
            if lost:
                suspects = lost + [task for future, task in working.items() if self._is_lost(future, task)]
                working.clear()
                self._one_by_one(suspects, engine)
        if self.stopped is not None:
            raise self.stopped

    def _one_by_one(self, suspects: Sequence[ShardTask], engine: Engine) -> None:
        """A worker died while these tasks were at work: alone, each shows whether it was the cause."""
        if not engine.restart():
            raise _lost_worker(suspects[0], "run again with a working executor; finished shards are skipped")
        for task in suspects:
            if self._is_lost(engine.submit(ShardTask.run, task), task):
                self._fail(task, _lost_worker(task, "look for a lack of memory, and test the shard with -j 1"))
                engine.restart()

    def _is_lost(self, future: Any, task: ShardTask) -> bool:
        """Take the result of a task; whether it was lost with its worker."""
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

    def _fail(self, task: ShardTask, error: Exception) -> None:
        if isinstance(error, WebDatasetError):
            add_where(error, shard=task.input)
        text = " ".join(str(error).split()) or type(error).__name__
        _log.info("%s failed: %s", task.input, text)
        if self.errors == "stop":
            self.stopped = self.stopped or error
        elif self.errors == "quarantine":
            self.ledger.quarantine(task.input, text)
            self.advance(1)
        else:
            self.failed.append(Failure(task.input, text))
            self.advance(1)


def _ended(working: dict[Any, ShardTask]) -> list[Any]:
    """Futures that have ended: at least one."""
    futures = list(working)
    if all(isinstance(future, cf.Future) for future in futures):
        return list(cf.wait(futures, return_when=cf.FIRST_COMPLETED).done)
    return futures[:1]  # a future of another kind is asked for its result, the oldest first


def _lost_worker(task: ShardTask, hint: str) -> StoreError:
    return StoreError("the worker process died while it worked on this shard", Where(shard=task.input), hint=hint)


def _output_names(urls: Sequence[str], outputs: Outputs) -> list[str]:
    if callable(outputs):
        names = [outputs(url) for url in urls]
    elif isinstance(outputs, str | os.PathLike):
        target = parse_target(outputs)
        if not isinstance(target, PerShard):
            raise SpecError(
                f"{os.fspath(outputs)!r} does not name one output for each input",
                hint="give a folder ending in /, or a template such as 'out/{stem}-small.tar'",
            )
        return target.names(urls)
    else:
        names = list(outputs)
    if len(names) != len(urls):
        raise SpecError(f"expected {len(urls)} outputs, one for each input, got {len(names)}")
    if len(set(names)) != len(names):
        raise SpecError("two inputs have the same output", hint="give every input an output of its own")
    return names


def _ledger_path(names: Sequence[str], outputs: Outputs, ledger: str | os.PathLike[str] | None) -> str:
    if ledger is not None:
        return os.fspath(ledger)
    path = stores.is_local(names[0])
    if path is None:
        raise SpecError(
            f"{names[0]!r} is not on this machine, so there is no place beside it for a ledger",
            hint="name a local file: --ledger job.jsonl",
        )
    pattern = os.fspath(outputs) if isinstance(outputs, str | os.PathLike) else "\n".join(names)
    make_folder(names[0])
    return os.path.join(os.path.dirname(path), f".wds-{digest(pattern):016x}.jsonl")  # noqa: PTH118, PTH120 - addresses


def _sweep(names: Sequence[str]) -> None:
    """Remove what killed workers of an earlier run were writing, of local outputs."""
    for folder, files in by_folder(names).items():
        stores.sweep_folder(folder, files)


def _existing(names: Sequence[str]) -> list[str]:
    sizes = stored_sizes(names)
    return [name for name in names if sizes.get(name) is not None]


def _unfinished(pairs: Sequence[tuple[str, str]], book: Ledger, *, retry: bool) -> list[tuple[str, str]]:
    """The (input, output) that are to be made: without a line in the ledger, or with one that does not fit any more."""
    finished = [name for pair in pairs if pair[0] in book.finished for name in pair]
    sizes = stored_sizes(finished, missing=-1)
    todo = []
    for url, output in pairs:
        result = book.finished.get(url)
        if result is None:
            if retry or url not in book.quarantined:
                book.quarantined.pop(url, None)
                todo.append((url, output))
        elif (
            result.output != output
            or sizes.get(output, result.filesize) != result.filesize
            or sizes.get(url, result.input_size) not in {result.input_size, -1}
        ):
            _log.warning("%s was finished before, but its files have changed; it is done again", url)
            del book.finished[url]
            todo.append((url, output))
    return todo


def _describe(description: str, results: Sequence[ShardResult]) -> None:
    entries = [
        ShardEntry(seen_from(description, result.output), result.samples_out, result.filesize, result.md5sum)
        for result in results
    ]
    make_folder(description)
    with stores.open_write(description) as stream:
        stream.write(write_description(Description(entries)))


def _ignore(_count: int) -> None:
    pass
