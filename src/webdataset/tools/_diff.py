"""`wds diff`: compare two datasets by key; their order and their shards may differ.

Digests of all fields are kept in a temporary file, so datasets of any size can be compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from webdataset.samples import OWN_FIELDS

from ._key_table import DigestTable
from ._list_samples import list_samples
from ._read_inputs import Inputs, expand_inputs, read_samples
from ._verb_options import Advance, advancing


class Change(StrEnum):
    """How a sample or a field differs."""

    ONLY_LEFT = "only in the first"
    ONLY_RIGHT = "only in the second"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: of a whole sample, or of one field of a sample that both have.

    >>> print(Difference("0001", Change.DIFFERENT, "jpg"))
    0001.jpg: different
    """

    key: str
    change: Change
    field: str | None = None

    def __str__(self) -> str:
        return f"{self.key}{'' if self.field is None else f'.{self.field}'}: {self.change}"


def diff(
    left: Inputs, right: Inputs, *, sizes_only: bool = False, advance: Advance | None = None
) -> Iterator[Difference]:
    """Every difference between two datasets, in no particular order.

    >>> from webdataset.testing import make_shard
    >>> one = make_shard("memory://doc-diff/a.tar", [{"__key__": "0", "txt": "a"}, {"__key__": "1", "txt": "b"}])
    >>> two = make_shard("memory://doc-diff/b.tar", [{"__key__": "1", "txt": "B"}, {"__key__": "2", "txt": "c"}])
    >>> for difference in sorted(diff(one, two), key=str): print(difference)
    0: only in the first
    1.txt: different
    2: only in the second

    Args:
        left: shards.
        right: shards.
        sizes_only: compare the sizes of fields and not their bytes, which need not be read then.
        advance: called with the number of samples read.
    """
    with DigestTable() as table:
        for side, inputs in enumerate((left, right)):
            for key, fields in advancing((_sizes if sizes_only else _digests)(inputs), advance):
                table.add(side, key, fields)
        for key, first, second in table.differences():
            yield from _compared(key, first, second)


def _compared(key: str, left: dict[str, str] | None, right: dict[str, str] | None) -> Iterator[Difference]:
    if left is None or right is None:
        yield Difference(key, Change.ONLY_RIGHT if left is None else Change.ONLY_LEFT)
        return
    for name in sorted(left.keys() | right.keys()):
        if name not in right:
            yield Difference(key, Change.ONLY_LEFT, name)
        elif name not in left:
            yield Difference(key, Change.ONLY_RIGHT, name)
        elif left[name] != right[name]:
            yield Difference(key, Change.DIFFERENT, name)


def _digests(inputs: Inputs) -> Iterator[tuple[str, dict[str, bytes]]]:
    for sample in read_samples(expand_inputs(inputs)):
        fields = {
            name: hashlib.blake2b(data, digest_size=16).digest()
            for name, data in sample.items()
            if name not in OWN_FIELDS
        }
        yield sample["__key__"], fields


def _sizes(inputs: Inputs) -> Iterator[tuple[str, dict[str, bytes]]]:
    for listed in list_samples(inputs):
        yield listed.key, {name: size.to_bytes(16) for name, size in listed.fields.items()}
