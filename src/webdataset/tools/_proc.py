"""`proc`: a command or a function on every sample, or on every shard."""

from __future__ import annotations

import os
import subprocess
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from webdataset import stores
from webdataset.arguments import require_choice
from webdataset.child_processes import Guard, run_shell
from webdataset.errors import CommandFailed, FormatError, SpecError, UnsafeContent, Where, located
from webdataset.flow import Stage
from webdataset.mutex import Mutex

from ._file_tree import read_folder
from ._load_function import load_function
from ._output_target import PerShard, parse_target
from ._read_inputs import Inputs, Sample
from ._report import SAMPLE_ERRORS, Report, settle_failure
from ._run_stages import transform
from ._temporary_files import scratch_folder, write_scratch
from ._verb_options import DEFAULTS, Options

_BASE = "sample"
_KEY = f"{_BASE}.__key__"


def run_on_samples(
    samples: Iterator[Sample],
    *,
    command: str,
    failed: str = "stop",
    timeout: float | None = None,
    threads: int = 1,
    folder: str | None = None,
) -> Iterator[Sample]:
    """A shell command on every sample; a stage.

    >>> samples = iter([{"__key__": "1", "txt": b"hello"}])
    >>> list(run_on_samples(samples, command="tr a-z A-Z < sample.txt > new && mv new sample.txt"))
    [{'__key__': '1', 'txt': b'HELLO'}]

    The command runs in a temporary folder that holds the fields as `sample.FIELD` and the key as `sample.__key__`.
    Afterwards all files `sample.*` are the new sample: removing a file removes its field, and a new key in
    `sample.__key__` renames the sample. Without any field the sample is left out. What the command prints goes to
    standard error.

    Args:
        samples: samples of bytes.
        command: a shell command, the user's own.
        failed: what to do if a command fails: "stop", "skip" the sample, or "keep" it unchanged, with a report.
        timeout: seconds after which a command is stopped and counts as failed.
        threads: how many commands run at a time; the order of the samples stays.
        folder: where temporary folders are made.
    """
    running = _Running()

    def work(sample: Sample) -> list[Sample]:
        with scratch_folder(folder) as place:
            for field, data in sample.items():
                if field[:1] != "_":
                    write_scratch(place / f"{_BASE}.{field}", data)
            write_scratch(place / _KEY, sample["__key__"].encode("utf-8", "surrogateescape"))
            run_command(command, place, timeout, running.new_guard())
            with stores.system_errors(str(place)):
                return _collected(place, sample)

    for sample, made in _in_order(work, samples, threads, running.kill):
        yield from settle_failure(sample, made, failed) if isinstance(made, Exception) else made


def run_on_shard(
    samples: Iterator[Sample], *, command: str, timeout: float | None, folder: str | None
) -> Iterator[Sample]:
    """A shell command on all samples of a shard at once; a stage.

    The command runs in a temporary folder with all files of the shard under their names; afterwards all files in it
    are the new samples, sorted by key.
    """
    with scratch_folder(folder) as place:
        for sample in samples:
            for field, data in sample.items():
                if field[:1] != "_":
                    path = inside(place, f"{sample['__key__']}.{field}")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_scratch(path, data)
        run_command(command, place, timeout)
        for entry in read_folder(str(place)).entries:
            yield entry.sample()


def call_function(samples: Iterator[Sample], *, name: str, failed: str) -> Iterator[Sample]:
    """A Python function on every sample; a stage.

    Args:
        samples: samples of bytes.
        name: `module:function` or `file.py:function`. The function gets a sample of bytes and returns a sample,
            several, or None for none; what it returns is encoded by extension.
        failed: what to do about an exception: "stop", "skip" the sample, or "keep" it unchanged, with a report.
    """
    function = load_function(name)
    for sample in samples:
        try:
            result = function(dict(sample))
            made = [] if result is None else [result] if isinstance(result, dict) else list(result)
        except Exception as error:
            made = settle_failure(sample, error, failed)
        yield from made


class _Running:
    """The running commands of all threads: `kill` ends them, and no other one starts."""

    def __init__(self) -> None:
        self._lock = Mutex()
        self._guards: weakref.WeakSet[Guard] = weakref.WeakSet()
        self._stopped = False

    def new_guard(self) -> Guard:
        """The guard for the next command; an error after `kill`."""
        with self._lock:
            if self._stopped:
                raise CommandFailed("the work was stopped")
            guard = Guard()
            self._guards.add(guard)
            return guard

    def kill(self) -> None:
        """Kill all running commands, and let no other one start."""
        with self._lock:
            self._stopped = True
            for guard in list(self._guards):
                guard.kill()


def _in_order(
    work: Callable[[Sample], list[Sample]], samples: Iterator[Sample], threads: int, stop: Callable[[], None]
) -> Iterator[tuple[Sample, list[Sample] | Exception]]:
    """Each sample with its results, in order, computed on several threads; `stop` ends their work early."""
    if threads <= 1:
        for sample in samples:
            yield sample, _attempt(work, sample)
        return
    waiting: deque[tuple[Sample, Future[list[Sample] | Exception]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for sample in samples:
                waiting.append((sample, pool.submit(_attempt, work, sample)))
                if len(waiting) >= 2 * threads:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            stop()
            pool.shutdown(wait=True, cancel_futures=True)


def _attempt(work: Callable[[Sample], list[Sample]], sample: Sample) -> list[Sample] | Exception:
    try:
        return work(sample)
    except Exception as error:
        return error


def run_command(command: str, folder: Path, timeout: float | None = None, guard: Guard | None = None) -> None:
    """Run a shell command in a folder; an error if it fails. Its output goes to standard error.

    >>> run_command("exit 3", Path("."))
    Traceback (most recent call last):
    webdataset.errors.CommandFailed: the command ended with status 3 – stage 'exit 3'
    """
    try:
        with located(stage=f"{command!r}"):
            status = run_shell(command, timeout=timeout, guard=guard, cwd=folder, stdin=subprocess.DEVNULL, stdout=2)
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(
            f"the command did not end in {timeout:g} seconds",
            Where(stage=f"{command!r}"),
            hint="allow more with --timeout",
        ) from error
    if status:
        raise CommandFailed(f"the command ended with status {status}", Where(stage=f"{command!r}"))


def inside(folder: Path, name: str) -> Path:
    """The path of a member in a folder; a name that leads out of it is refused.

    >>> inside(Path("x"), "../a.txt")
    Traceback (most recent call last):
    webdataset.errors.UnsafeContent: the name '../a.txt' leads out of the folder – ...
    """
    if name.startswith("/") or ".." in Path(name).parts or "\0" in name:
        raise UnsafeContent(f"the name {name!r} leads out of the folder", hint="rename such keys: wds rename --key")
    return folder / name


def _collected(folder: Path, sample: Sample) -> list[Sample]:
    made: Sample = {field: value for field, value in sample.items() if field[:1] == "_"}
    for path in sorted(folder.glob(f"{_BASE}.*")):
        field = path.name.removeprefix(f"{_BASE}.")
        if path.name == _KEY:
            made["__key__"] = path.read_text(encoding="utf-8", errors="surrogateescape").strip("\n")
        elif os.path.isfile(path) and not path.is_symlink():
            made[field.lower()] = path.read_bytes()
        else:
            raise FormatError(f"the command left {path.name}, which is not a plain file", hint="leave files only")
    return [made] if any(field[:1] != "_" for field in made) else []


def proc(
    inputs: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    command: str | None = None,
    function: str | None = None,
    per_shard: bool = False,
    failed: str = "stop",
    timeout: float | None = None,
    folder: str | None = None,
) -> Report:
    """Process every sample, or every shard, by a command or a function.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-proc/a.tar", [{"__key__": "1", "txt": "hello"}])
    >>> proc(shard, "memory://doc-proc/b.tar", command="wc -c < sample.txt > sample.len").samples_out
    1

    Args:
        inputs: shards.
        output: one archive, a series, or a folder: one output for each input, in parallel.
        options: how to write and run; `workers` of a single output are threads, the order stays.
        command: a shell command: see `run_on_samples`, or `run_on_shard` with `per_shard`.
        function: `module:function` or `file.py:function`: see `call_function`.
        per_shard: run the command once for each shard.
        failed: samples that fail: "stop", "skip" or "keep".
        timeout: seconds for each command.
        folder: where temporary folders are made.
    """
    if (command is None) == (function is None):
        raise SpecError("expected either a command or a function", hint="give --command or --python")
    require_choice("failed", failed, SAMPLE_ERRORS)
    by_shard = isinstance(parse_target(output), PerShard)
    stage: Stage
    if function is not None:
        load_function(function)  # what cannot be loaded fails here
        stage = partial(call_function, name=function, failed=failed)
    elif per_shard:
        if not by_shard:
            raise SpecError("a command per shard makes one output for each input", hint="write -o folder/")
        stage = partial(run_on_shard, command=str(command), timeout=timeout, folder=folder)
    else:
        stage = partial(run_on_samples, command=str(command), failed=failed, timeout=timeout, folder=folder)
        if not by_shard:
            stage = partial(stage, threads=options.workers)
            options = replace(options, workers=1)
    return transform([stage], inputs, output, options, job=f"proc {command} {function} {per_shard} {failed}")
