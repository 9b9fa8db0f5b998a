"""`split`, `reshard`: the same samples in shards of another size."""

from __future__ import annotations

import os

from webdataset.errors import SpecError

from ._output_target import Series, parse_target
from ._read_inputs import Inputs
from ._report import Report
from ._run_stages import transform
from ._verb_options import DEFAULTS, Options


def split(inputs: Inputs, output: str | os.PathLike[str], options: Options = DEFAULTS) -> Report:
    """Write the samples of all inputs to a numbered series of shards, in order.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-split/a.tar", [{"__key__": n, "txt": n} for n in "abc"])
    >>> split(shard, "memory://doc-split/out-%d.tar", Options(count=2)).outputs
    ('memory://doc-split/out-0.tar', 'memory://doc-split/out-1.tar')

    Args:
        inputs: shards.
        output: the names of the shards with a place for their number.
        options: `count`, `size` or `shards` say how large a shard is.
    """
    if not isinstance(parse_target(output), Series):
        raise SpecError(f"{os.fspath(output)!r} cannot number shards", hint="write -o 'out-%06d.tar'")
    if options.shards and (options.count or options.size):
        raise SpecError("either the number of shards or their size can be chosen", hint="leave one of them out")
    return transform([], inputs, output, options, job="split")
