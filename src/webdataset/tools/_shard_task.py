"""The work on one shard: read it, apply stages to its samples, publish the result. Runs on any worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from webdataset.errors import located
from webdataset.flow import Stage
from webdataset.redact import hides_secrets
from webdataset.writers import Record, TarWriter

from ._output_target import make_folder
from ._read_inputs import CountStage, read_samples
from ._report import collect_failures
from ._stored_versions import Version, version_of


@hides_secrets
class ShardResult(NamedTuple):
    """The result for one shard: a line of the ledger."""

    input: str
    output: str
    samples_in: int
    samples_out: int
    bytes_out: int
    filesize: int  # `MISSING` if there is no output, because the input has no samples
    md5sum: str
    input_version: Sequence[Any] = Version()
    failed: Sequence[tuple[str, str]] = ()  # samples that were left out or kept unchanged, and why
    lacking: Sequence[str] = ()  # fields that the user named and no sample has


@hides_secrets
@dataclass(frozen=True)
class ShardTask:
    """One input shard, one output shard, and the stages between them.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-task/a.tar", [{"__key__": "0", "txt": "hello"}])
    >>> ShardTask((), shard, "memory://doc-task/b.tar", index=False).run().samples_out
    1
    """

    stages: Sequence[Stage]
    input: str
    output: str
    index: bool = True
    seed: int = 0
    named: tuple[str, ...] = ()

    def run(self) -> ShardResult:
        """Do the work. The output appears when it is complete and on its disk, or not at all."""
        make_folder(self.output)
        version = version_of(self.input)  # before it is read: a shard that is replaced meanwhile will be done again
        counter = CountStage(self.named)
        record, written = Record(), 0
        with (
            collect_failures() as failures,
            located(shard=self.input),
            TarWriter(self.output, index=self.index) as sink,
        ):
            sink.take_notes(record)
            for sample in read_samples([self.input], [counter, *self.stages], seed=self.seed):
                written += sink.write(sample)
        entry = record.entry(self.output)
        assert entry.filesize is not None
        assert entry.md5sum is not None
        return ShardResult(
            self.input,
            self.output,
            counter.count,
            sink.count,
            written,
            entry.filesize,
            entry.md5sum,
            version,
            [(failure.item, failure.error) for failure in failures],
            counter.lacking,
        )
