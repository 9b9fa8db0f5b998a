"""Apply a function to every shard, in parallel; a killed job continues where it stopped.

The shard is the unit of work, and the name of an output follows from the name of its input.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from webdataset.describe import shown
from webdataset.errors import SpecError
from webdataset.flow import Stage

from ._output_target import PerShard, parse_target
from ._read_inputs import Inputs, expand_inputs
from ._report import Report
from ._run_tasks import run_tasks
from ._shard_task import ShardTask
from ._verb_options import Options

Outputs = str | os.PathLike[str] | Sequence[str] | Callable[[str], str]


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
    """Apply stages to every shard and write one output shard for each.

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
        errors: what to do about a shard that fails: "stop" ends the job after the running shards; "skip" continues, and
            the next run tries it again; "quarantine" continues, and the next run leaves it out unless `retry` is set.
        retry: try quarantined shards again.
        force: start again and replace outputs that exist.
        ledger: the local file that lists finished shards; by default a hidden file beside local outputs.
        job: what this job does, in words that are the same in every run; by default the name of the function. A ledger
            of another job is refused.
        index: store an index beside each output.
        description: where the description of all outputs goes, once all are finished.
        seed: for stages that draw random numbers.
        advance: called with the number of shards finished since the last call.
    """
    stages = [fn] if callable(fn) else list(fn)
    urls = expand_inputs(inputs)
    options = Options(
        engine=executor,
        workers=workers,
        address=address,
        errors=errors,
        retry=retry,
        force=force,
        ledger=None if ledger is None else os.fspath(ledger),
        index=index,
        description=description,
        seed=seed,
        advance=advance,
    )
    return run_tasks(
        list(zip(urls, _output_names(urls, outputs), strict=True)),
        lambda url, name: ShardTask(stages, url, name, index, seed),
        options,
        job=job or " | ".join(map(shown, stages)) or "copy",
        pattern=os.fspath(outputs) if isinstance(outputs, str | os.PathLike) else None,
    )


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
