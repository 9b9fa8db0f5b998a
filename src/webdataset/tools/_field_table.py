"""Fields of samples as rows: what `wds show --format tsv` and `--format jsonl` print."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from webdataset.errors import FormatError, Where
from webdataset.samples import OWN_FIELDS

from ._expression import decode_plain
from ._read_inputs import Inputs, Sample, expand_inputs, read_samples


def field_rows(
    inputs: Inputs, fields: Sequence[str] | None = None, *, count: int | None = None
) -> Iterator[dict[str, Any]]:
    """One row per sample: `__key__` and values: JSON is parsed, text and numbers are as they are, the rest in base64.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-rows/a.tar", [{"__key__": "0", "txt": "a", "json": {"b": 1}, "bin": b"c"}])
    >>> list(field_rows(shard))
    [{'__key__': '0', 'bin': 'Yw==', 'json': {'b': 1}, 'txt': 'a'}]
    >>> list(field_rows(shard, ["caption;txt"]))
    [{'__key__': '0', 'txt': 'a'}]

    Args:
        inputs: shards.
        fields: which fields; `a;b` is the first of them that a sample has. By default all.
        count: at most so many samples.
    """
    for sample in islice(read_samples(expand_inputs(inputs)), count):
        names = [name for name in sample if name not in OWN_FIELDS] if fields is None else _chosen(sample, fields)
        yield {"__key__": sample["__key__"], **{name: _plain(name, sample) for name in names}}


def _chosen(sample: Sample, fields: Sequence[str]) -> list[str]:
    found = []
    for choice in fields:
        name = next((name for name in choice.split(";") if name in sample), None)
        if name is None:
            raise FormatError(
                f"the sample has no field {choice!r}",
                _where(sample),
                hint="`wds select --field NAME` takes those that have it",
            )
        found.append(name)
    return found


def _plain(name: str, sample: Sample) -> Any:
    try:
        value = decode_plain(name, sample[name])
    except ValueError as error:
        raise FormatError(f"the field {name!r} cannot be decoded: {error}", _where(sample)) from error
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _where(sample: Sample) -> Where:
    return Where(key=sample["__key__"], shard=sample.get("__url__"))
