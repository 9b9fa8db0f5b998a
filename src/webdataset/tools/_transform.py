"""Shards through stages: as one stream, or shard by shard in parallel, as the output asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webdataset.errors import SpecError, WebDatasetError
from webdataset.flow import Stage
from webdataset.handlers import Handler, reraise_exception

from ._count_samples import shard_counts
from ._failures import collect_failures
from ._map_shards import ERRORS, map_shards
from ._read_inputs import CountStage, Inputs, expand_inputs, read_samples
from ._report import Failure, Report
from ._target import OneArchive, PerShard, Series, existing_outputs, parse_target, refuse_existing
from ._write_samples import Writing, write_samples


@dataclass(frozen=True)
class Options:
    """How a verb that changes shards writes and runs.

    >>> Options(count=1000).index
    True

    Attributes:
        count: most samples in a shard of a numbered series.
        size: a shard of a series is full when its fields have at least so many bytes.
        shards: the number of shards of a series, with equally many samples each.
        index: store an index beside each shard.
        description: where the description of all shards goes.
        force: replace outputs that exist.
        dry_run: report what would be done, write nothing.
        seed: seed of everything random.
        workers: worker processes, for outputs that are named after inputs.
        engine: "local", "dask", "ray", or an executor.
        address: of a running Dask or Ray cluster.
        errors: "stop", "skip" or "quarantine": see `map_shards`; "skip" in a stream leaves out what cannot be read.
        retry: try quarantined shards again.
        ledger: where finished shards are noted down.
        post: called with the address of each shard of a series after it is published.
        advance: called with the number of samples, or of shards, since the last call.
    """

    count: int | None = None
    size: float | None = None
    shards: int | None = None
    index: bool = True
    description: str | None = None
    force: bool = False
    dry_run: bool = False
    seed: int = 0
    workers: int = 1
    engine: Any = "local"
    address: str | None = None
    errors: str = "stop"
    retry: bool = False
    ledger: str | None = None
    post: Callable[[str], Any] | None = None
    advance: Callable[[int], None] | None = None


DEFAULTS = Options()


def transform(
    stages: Sequence[Stage], inputs: Inputs, output: str | os.PathLike[str], options: Options = DEFAULTS, *, job: str
) -> Report:
    """Take the samples of shards through stages.

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
    """
    urls = expand_inputs(inputs)
    target = parse_target(output)
    if isinstance(target, PerShard):
        return _shard_by_shard(stages, urls, target, options, job)
    return stream(stages, urls, target, options)


def stream(stages: Sequence[Stage], urls: Sequence[str], target: OneArchive | Series, options: Options) -> Report:
    """Take the samples of shards through stages, one shard after the other, to one archive or a series."""
    if options.workers > 1 or options.engine not in {None, "local"}:
        raise SpecError(
            "one stream of samples cannot be made in parallel", hint="write shard by shard, to -o folder/, or use -j 1"
        )
    if options.dry_run:
        refuse_existing(existing_outputs(target), force=options.force)
        return Report(outputs=(target.url if isinstance(target, OneArchive) else target.pattern,))
    with shard_counts(urls, options.shards) as (sources, counts), collect_failures() as noted:
        failures = Failures(options.errors)
        source = CountStage()
        samples = read_samples(sources, [source, *stages], handler=failures.handler, seed=options.seed)
        report = write_samples(samples, _writing(target, options, counts), advance=options.advance)
    return replace(report, samples_in=source.count, failed=(*failures.found, *noted))


class Failures:
    """What could not be read, for the report."""

    def __init__(self, errors: str) -> None:
        if errors not in ERRORS:
            raise SpecError(f"errors={errors!r} is not known", hint=f"take one of {', '.join(ERRORS)}")
        self.found: list[Failure] = []
        self.handler: Handler = reraise_exception if errors == "stop" else self._note

    def _note(self, error: Exception) -> bool:
        where = error.where.shard if isinstance(error, WebDatasetError) else None
        self.found.append(Failure(where or "input", " ".join(str(error).split())))
        return True


def _writing(target: OneArchive | Series, options: Options, counts: tuple[int, ...] | None) -> Writing:
    return Writing(
        target,
        count=options.count,
        size=options.size,
        counts=counts,
        index=options.index,
        description=options.description,
        force=options.force,
        post=options.post,
    )


def _shard_by_shard(
    stages: Sequence[Stage], urls: Sequence[str], target: PerShard, options: Options, job: str
) -> Report:
    if options.count or options.size or options.shards:
        raise SpecError(
            "outputs that are named after inputs have the inputs' samples", hint="number them: -o 'out-%06d.tar'"
        )
    if options.dry_run:
        return Report(outputs=tuple(target.names(urls)))
    return map_shards(
        stages,
        list(urls),
        target.template,
        executor=options.engine,
        workers=options.workers,
        address=options.address,
        errors=options.errors,
        retry=options.retry,
        force=options.force,
        ledger=options.ledger,
        job=job,
        index=options.index,
        description=options.description,
        seed=options.seed,
        advance=options.advance,
    )
