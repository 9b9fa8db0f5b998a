"""`wds get` and `wds first`: one field of one sample, as its bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from webdataset.errors import SpecError
from webdataset.index import IndexedShards
from webdataset.redact import hides_secrets
from webdataset.samples import OWN_FIELDS

from ._expression import Expression
from ._output_target import is_stream
from ._read_inputs import Inputs, Sample, expand_inputs, read_samples

PICTURES = ("img", "image", "ppm", "pgm", "pbm", "jpeg", "jpg", "png")


@hides_secrets
@dataclass(frozen=True, slots=True)
class Got:
    """A field of a sample."""

    shard: str
    key: str
    field: str
    data: bytes


def get_field(inputs: Inputs, key: str, field: str, *, index: str | None = None) -> Got:
    """One field of the sample with a key; with an index, nothing else is read.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-get/a.tar", [{"__key__": "0", "txt": "hello"}])
    >>> get_field(shard, "0", "txt").data
    b'hello'
    """
    sample = next(find_samples(inputs, [key], fields=[field], index=index))
    if field.lower() not in sample:
        raise SpecError(f"the sample {key!r} has no field {field!r}", hint="`wds show --key KEY` lists its fields")
    return Got(str(sample.get("__url__", "")), key, field.lower(), sample[field.lower()])


def first_field(inputs: Inputs, fields: Sequence[str] = PICTURES, *, where: str | None = None) -> Got:
    """The first of these fields in the first sample that has one of them.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-get/b.tar", [{"__key__": f"{n}", "cls": n} for n in range(9)])
    >>> first_field(shard, ["cls"], where="cls > 4").data
    b'5'

    Args:
        inputs: shards.
        fields: the fields to look for, in the order of preference.
        where: only samples for which this expression is true.
    """
    fits = Expression(where) if where is not None else None
    for sample in read_samples(expand_inputs(inputs)):
        found = next((name for name in fields if name in sample and name not in OWN_FIELDS), None)
        if found is not None and (fits is None or fits(sample)):
            return Got(str(sample.get("__url__", "")), sample["__key__"], found, sample[found])
    condition = f" for which {where} is true" if where else ""
    raise SpecError(f"no sample{condition} has one of the fields {' '.join(fields)}", hint="`wds ls` lists fields")


def find_samples(
    inputs: Inputs, keys: Collection[str], *, fields: Sequence[str] | None = None, index: str | None = None
) -> Iterator[Sample]:
    """The samples with these keys, in the order of the keys."""
    urls = expand_inputs(inputs)
    if any(map(is_stream, urls)):
        yield from _streamed(urls, keys)
        return
    with IndexedShards(
        urls, fields=None if fields is None else [name.lower() for name in fields], index=index
    ) as shards:
        for key in keys:
            try:
                yield dict(shards[key])
            except KeyError:
                raise _unknown(key) from None


def _streamed(urls: Sequence[str], keys: Collection[str]) -> Iterator[Sample]:
    """The samples with these keys in inputs that can be read only once, in the order of the stream."""
    missing = dict.fromkeys(keys)
    for sample in read_samples(urls):
        if sample["__key__"] in missing:
            del missing[sample["__key__"]]
            yield sample
            if not missing:
                return
    raise _unknown(next(iter(missing)))


def _unknown(key: str) -> SpecError:
    return SpecError(f"no sample has the key {key!r}", hint="`wds ls` lists the keys")
