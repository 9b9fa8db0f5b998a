"""Apply stages to shards: as one stream, or shard by shard in parallel, depending on the output."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from webdataset.errors import SpecError
from webdataset.flow import Stage

from ._count_samples import shard_counts
from ._output_target import PerShard, Stream, parse_target
from ._read_inputs import CountStage, Inputs, expand_inputs, read_samples, warn_of_lacking
from ._report import Report, collect_failures, failure_handler
from ._run_tasks import run_tasks
from ._shard_task import ShardTask
from ._verb_options import DEFAULTS, Options
from ._write_samples import write_samples


def transform(
    stages: Sequence[Stage],
    inputs: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    job: str,
    named: Iterable[str] = (),
) -> Report:
    """Apply stages to the samples of shards and write the result.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-transform/a.tar", [{"__key__": "0", "txt": "hello"}])
    >>> transform([], shard, "memory://doc-transform/%d.tar", job="copy").outputs
    ('memory://doc-transform/0.tar',)

    Args:
        stages: what happens to the samples; stages that are sent to worker processes must pickle.
        inputs: shards.
        output: one archive, a numbered series, or a folder: one output for each input.
        options: how to write and run.
        job: what the stages do, in words, for the ledger.
        named: the fields that the user named.
    """
    urls = expand_inputs(inputs)
    target = parse_target(output)
    if isinstance(target, PerShard):
        return _shard_by_shard(stages, urls, target, options, job, tuple(named))
    return _as_one_stream(stages, urls, target, options, named)


def _as_one_stream(
    stages: Sequence[Stage], urls: Sequence[str], target: Stream, options: Options, named: Iterable[str]
) -> Report:
    """Apply stages to the samples of shards, one shard after the other, and write one archive or a series."""
    if options.workers > 1 or options.engine not in {None, "local"}:
        raise SpecError(
            "one stream of samples cannot be made in parallel", hint="write shard by shard, to -o folder/, or use -j 1"
        )
    handler, source = failure_handler(options.errors), CountStage(named)
    with (
        shard_counts(urls, None if options.dry_run else options.shards) as (sources, counts),
        collect_failures() as failures,
    ):
        samples = read_samples(sources, [source, *stages], handler=handler, seed=options.seed)
        report = write_samples(samples, target, options, counts)
    warn_of_lacking([(source.count, source.lacking)])
    return replace(report, samples_in=source.count, failed=tuple(failures))


def _shard_by_shard(
    stages: Sequence[Stage], urls: Sequence[str], target: PerShard, options: Options, job: str, named: tuple[str, ...]
) -> Report:
    if options.count or options.size or options.shards:
        raise SpecError(
            "outputs that are named after inputs have the inputs' samples", hint="number them: -o 'out-%06d.tar'"
        )
    return run_tasks(
        list(zip(urls, target.names(urls), strict=True)),
        lambda url, name: ShardTask(stages, url, name, options.index, options.seed, named),
        options,
        job=job,
        pattern=target.text,
    )
