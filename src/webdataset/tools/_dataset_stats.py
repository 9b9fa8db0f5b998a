"""`wds stats`: how many samples, how large, which fields."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ._list_samples import list_samples
from ._read_inputs import Inputs, expand_inputs
from ._verb_options import Advance, advancing


@dataclass(slots=True)
class Distribution:
    """Numbers, as their count, sum, extremes, and a histogram by powers of two.

    >>> sizes = Distribution()
    >>> for size in (0, 5, 6, 100): sizes.add(size)
    >>> sizes.mean, sizes.histogram()
    (27.75, [(0, 0, 1), (4, 7, 2), (8, 15, 0), (16, 31, 0), (32, 63, 0), (64, 127, 1)])
    """

    count: int = 0
    total: int = 0
    smallest: int | None = None
    largest: int | None = None
    bins: Counter[int] = field(default_factory=Counter)

    def add(self, number: int) -> None:
        """Add a number."""
        self.count += 1
        self.total += number
        self.smallest = number if self.smallest is None else min(self.smallest, number)
        self.largest = number if self.largest is None else max(self.largest, number)
        self.bins[number.bit_length()] += 1

    @property
    def mean(self) -> float:
        """The mean."""
        return self.total / self.count if self.count else 0.0

    def histogram(self) -> list[tuple[int, int, int]]:
        """(from, to, how many), without gaps above the first bin that is not empty and not zero."""
        above = [number for number in self.bins if number]
        numbers = [0] * bool(self.bins[0]) + (list(range(min(above), max(above) + 1)) if above else [])
        return [((1 << number) >> 1, (1 << number) - 1, self.bins[number]) for number in numbers]


@dataclass(slots=True)
class DatasetStats:
    """Statistics of a dataset.

    Attributes:
        shards: how many shards.
        samples: the bytes of each sample.
        per_shard: the number of samples of each shard.
        fields: the bytes of each field, by its name.
        field_sets: how many samples have exactly these fields, the most frequent sets first.
    """

    shards: int = 0
    samples: Distribution = field(default_factory=Distribution)
    per_shard: Distribution = field(default_factory=Distribution)
    fields: dict[str, Distribution] = field(default_factory=dict)
    field_sets: dict[str, int] = field(default_factory=dict)


# Sets of fields beyond so many are counted together.
_MOST_SETS = 1000
_OTHERS = "(others)"


def dataset_stats(inputs: Inputs, *, index: str | None = None, advance: Advance | None = None) -> DatasetStats:
    """Count samples, fields and bytes; payloads are not read if headers or an index have the sizes.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-stats/a.tar", [{"__key__": f"{n}", "txt": "a" * n} for n in range(5)])
    >>> stats = dataset_stats(shard)
    >>> stats.samples.count, stats.fields["txt"].largest
    (5, 4)
    """
    stats = DatasetStats()
    for url in advancing(expand_inputs(inputs), advance):
        count = 0
        for listed in list_samples([url], index=index):
            count += 1
            stats.samples.add(listed.size)
            for name, size in listed.fields.items():
                stats.fields.setdefault(name, Distribution()).add(size)
            names = " ".join(sorted(listed.fields))
            known = names if names in stats.field_sets or len(stats.field_sets) < _MOST_SETS else _OTHERS
            stats.field_sets[known] = stats.field_sets.get(known, 0) + 1
        stats.shards += 1
        stats.per_shard.add(count)
    stats.field_sets = dict(sorted(stats.field_sets.items(), key=lambda item: -item[1]))
    return stats
