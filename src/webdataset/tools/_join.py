"""`join`: the fields of other shards, added by key; written out, or only described."""

from __future__ import annotations

import os
from collections.abc import Sequence

from webdataset import stores
from webdataset.errors import SpecError
from webdataset.flow import digest
from webdataset.index import Description, IndexedShards, ShardEntry, index_shards, seen_from
from webdataset.plan import JOIN, join_stages

from ._output_target import existing, refuse_description, refuse_existing, store_description
from ._read_inputs import Inputs, expand_inputs
from ._report import Report
from ._run_stages import transform
from ._verb_options import DEFAULTS, Options


def join(
    inputs: Inputs,
    others: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    fields: Sequence[str] | None = None,
    missing: str = "error",
    replace: bool = False,
) -> Report:
    """Add the fields of other shards to the samples with the same keys.

    >>> from webdataset.testing import make_shard
    >>> a = make_shard("memory://doc-tjoin/a.tar", [{"__key__": "0", "cls": 3}])
    >>> b = make_shard("memory://doc-tjoin/b.tar", [{"__key__": "0", "txt": "hello"}])
    >>> join(a, b, "memory://doc-tjoin/c.tar").samples_out
    1

    The samples and their order are those of the inputs; the others are looked up by key, in any order. An output that
    ends in `.json` is a description: nothing is copied, and `WebDataset("joined.json")` reads the fields of both.

    Args:
        inputs: shards.
        others: the shards to add from; those without an index are read once.
        output: one archive, a series, a folder, or a description.
        options: how to write and run.
        fields: add only these; None adds all.
        missing: a sample whose key the others do not have: "error", "keep" it as it is, or "drop" it.
        replace: replace fields that the samples have already; otherwise such a field is an error.
    """
    urls, added = expand_inputs(inputs), expand_inputs(others)
    if os.fspath(output).endswith(".json"):
        return _describe(urls, added, stores.as_address(output), options, fields, missing, replace=replace)
    if "-" in added:
        raise SpecError("the shards to add from are read by key, so they cannot be standard input", hint="use a file")
    stages = join_stages(IndexedShards(added, fields=fields), fields, missing, replace=replace)
    job = f"join {digest(*added):016x} {fields} {missing} {replace}"
    return transform(stages, urls, output, options, job=job)


def _describe(
    urls: Sequence[str],
    added: Sequence[str],
    output: str,
    options: Options,
    fields: Sequence[str] | None,
    missing: str,
    *,
    replace: bool,
) -> Report:
    """Index all shards and write a description that joins them."""
    refuse_existing(existing([output]), force=options.force)
    refuse_description(output, [*urls, *added])
    if options.dry_run:
        return Report(outputs=(output,))
    base, other = (_indexed(shards, options) for shards in (urls, added))
    listed = [entry._replace(url=seen_from(output, entry.url)).to_json() for entry in other]
    part: dict[str, object] = {"shardlist": listed, "missing": missing}
    part |= {"fields": list(fields)} if fields is not None else {}
    part |= {"replace": True} if replace else {}
    # Called for its checks: a join that is not possible is refused before anything is written.
    join_stages(IndexedShards(added if fields else [], fields=fields), fields, missing)
    store_description(Description(base, extra={JOIN: [part]}), output)
    samples = sum(entry.nsamples for entry in base)
    return Report(samples_in=samples, samples_out=samples, done=0, outputs=(output,))


def _indexed(urls: Sequence[str], options: Options) -> Sequence[ShardEntry]:
    return index_shards(urls, store_index=options.index, workers=max(1, options.workers)).shards
