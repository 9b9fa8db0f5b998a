"""`cat`: shards one after the other, as one stream."""

from __future__ import annotations

import os
from dataclasses import replace

from webdataset.flow import Stage
from webdataset.stages import shuffle as shuffle_stage

from ._read_inputs import Counted, Inputs, expand_inputs, read_samples
from ._report import Report
from ._target import parse_target
from ._write_samples import Advance, Writing, write_samples


def cat(
    inputs: Inputs,
    output: str | os.PathLike[str],
    *,
    shuffle: int = 0,
    seed: int = 0,
    index: bool = True,
    force: bool = False,
    advance: Advance | None = None,
) -> Report:
    """Write the samples of all inputs to one output.

    >>> from webdataset.testing import make_shard
    >>> shards = [make_shard(f"memory://doc-cat/{n}.tar", [{"__key__": n, "txt": n}]) for n in "ab"]
    >>> cat(shards, "memory://doc-cat/all.tar").samples_out
    2
    """
    stages: list[Stage] = [shuffle_stage(shuffle)] if shuffle else []
    source = Counted(read_samples(expand_inputs(inputs), stages, seed=seed))
    report = write_samples(source, Writing(parse_target(output), index=index, force=force), advance=advance)
    return replace(report, samples_in=source.count)
