"""The options of a check, and its report on one shard."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from webdataset.redact import hides_secrets

from ._findings import Findings, Target


@hides_secrets
@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of a check, beyond what every reader needs.

    Attributes:
        fields: fields that every sample must have; None finds out which ones nearly all have.
        decode: whether to decode the fields.
        targets: programs that must be able to read the shards too.
        in_order: whether keys must be sorted.
        index: where indexes are kept; None looks beside the shards.
        checksums: whether MD5 sums are compared with the description.
        threads: how many threads decode the samples of one shard.
    """

    fields: tuple[str, ...] | None = None
    decode: bool = True
    targets: frozenset[Target] = frozenset()
    in_order: bool = False
    index: str | None = None
    checksums: bool = True
    threads: int = 1


class Place(NamedTuple):
    """The key and the offset of a sample that is an example of a finding."""

    key: str
    offset: int


@hides_secrets
@dataclass(slots=True)
class ShardReport:
    """The report of a check on one shard.

    Attributes:
        url: the shard's address.
        samples: how many samples it has.
        members: how many members of any type.
        size: how many bytes it has, as it is stored.
        findings: what is wrong with it.
        keys: the samples, in order.
        offsets: where each sample begins.
        field_sets: which sets of fields occur: how often, and where first.
        first_fields: the fields of the first samples.
        types: for each path in JSON fields and arrays, the types that occur and where first; for Hugging Face only.
        first_types: those of the first samples.
    """

    url: str
    samples: int = 0
    members: int = 0
    size: int = 0
    findings: Findings = field(default_factory=Findings)
    keys: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    field_sets: dict[frozenset[str], tuple[int, Place]] = field(default_factory=dict)
    first_fields: list[frozenset[str]] = field(default_factory=list)
    types: dict[tuple[str, ...], dict[str, Place]] = field(default_factory=dict)
    first_types: dict[tuple[str, ...], set[str]] = field(default_factory=dict)


def common_fields(field_sets: dict[frozenset[str], tuple[int, Any]], share: float) -> frozenset[str]:
    """The fields that at least `share` of all samples have.

    >>> sorted(common_fields({frozenset({"jpg", "cls"}): (99, None), frozenset({"jpg"}): (1, None)}, 0.95))
    ['cls', 'jpg']
    """
    counts: Counter[str] = Counter()
    for names, (count, _) in field_sets.items():
        counts.update(dict.fromkeys(names, count))
    total = sum(count for count, _ in field_sets.values())
    return frozenset(name for name, count in counts.items() if count >= share * total)
