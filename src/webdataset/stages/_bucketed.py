"""Batches of samples of similar length."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from webdataset.arguments import is_integer, require_callable, require_count
from webdataset.describe import Described
from webdataset.errors import SpecError
from webdataset.flow import Json, Pass, Recall, Resumable

from ._ask_handler import locate
from ._buffers import Grouped
from ._collate import default_collation_fn
from ._field_names import getfirst


@dataclass(frozen=True, repr=False)
class Bucketed(Described, Resumable):
    """Put samples of similar length together, so that padding them wastes little.

    >>> stage = Bucketed(2, boundaries=(3,), length=len, collation_fn=None)
    >>> list(stage(["a", "four", "bb", "seven", "c"]))
    [['a', 'bb'], ['four', 'seven'], ['c']]

    A sample of length n goes into the bucket whose boundaries enclose it (`boundaries[i - 1] <= n < boundaries[i]`); a
    bucket that is full is yielded. What is left at the end is yielded bucket by bucket.

    Args:
        batchsize: how many samples make a batch; or one number for each bucket, smaller ones for longer samples.
        boundaries: rising lengths; there is one bucket more than boundaries.
        length: a field's name, a position in a tuple, or a function of the sample.
        collation_fn: what makes a batch out of a list of samples; None yields the list.
        partial: False leaves out the batches at the end that are not full.
    """

    verb: ClassVar[str] = "bucketed"
    batchsize: int | Sequence[int]
    boundaries: Sequence[float]
    length: str | int | Callable[[Any], float] = 0
    collation_fn: Callable[[Sequence[Any]], Any] | None = default_collation_fn
    partial: bool = True

    def __post_init__(self) -> None:
        boundaries = tuple(self.boundaries)
        if any(later <= earlier for earlier, later in pairwise(boundaries)):
            raise SpecError(f"bucketed(boundaries={boundaries}): boundaries must rise")
        self._set(boundaries=boundaries)
        sizes = self.batchsize if isinstance(self.batchsize, list | tuple) else [self.batchsize] * (len(boundaries) + 1)
        if len(sizes) != len(boundaries) + 1:
            raise SpecError(
                f"bucketed(): {len(sizes)} batch sizes for {len(boundaries) + 1} buckets",
                hint="give one size per bucket",
            )
        self._set(batchsize=tuple(require_count("bucketed", "batchsize", size, least=1) for size in sizes))
        length_by(self.length)
        if self.collation_fn is not None:
            require_callable("bucketed", collation_fn=self.collation_fn)

    def start(self, during: Pass) -> Grouped:
        """Empty buckets."""
        return Grouped(len(self.boundaries) + 1)

    def run(self, items: Iterator[Any], at: Grouped, /) -> Iterator[Any]:
        """Fill buckets, yield full ones."""
        length = length_by(self.length)
        for bucket in range(len(at.items)):  # one is full if its collation had failed when the state was saved
            if self._is_full(at, bucket):
                yield self._hand(at, bucket)
        for item in at.arrivals(items):
            try:
                bucket = bisect_right(self.boundaries, length(item))
            except Exception as error:
                locate(error, self, item)
                raise
            at.take(item, bucket)
            if self._is_full(at, bucket):
                yield self._hand(at, bucket)
        for bucket in range(len(at.items)):
            if at.items[bucket] and self.partial:
                yield self._hand(at, bucket)
            at.hand(bucket)

    def again(self, origin: Json, recall: Recall) -> Any:
        """Make the batch of these samples again."""
        return self._collated([recall(sample) for sample in origin])

    def _is_full(self, at: Grouped, bucket: int) -> bool:
        return len(at.items[bucket]) >= self.batchsize[bucket]  # type: ignore[index]  # a tuple since __post_init__

    def _hand(self, at: Grouped, bucket: int) -> Any:
        batch = self._collated(at.items[bucket])
        at.hand(bucket)
        return batch

    def _collated(self, samples: list[Any]) -> Any:
        return samples if self.collation_fn is None else self.collation_fn(samples)


def length_by(spec: Any) -> Callable[[Any], int]:
    """Return a function that measures samples: by a field, by a position in a tuple, or the user's own.

    >>> length_by("txt")({"txt": "hello"}), length_by(0)(("hello", 1))
    (5, 5)
    """
    if isinstance(spec, str):
        return lambda sample: len(_field(sample, spec))
    if is_integer(spec):
        return lambda sample: len(sample[spec])
    if callable(spec):
        return spec  # type: ignore[no-any-return]  # whatever it returns is compared with numbers
    raise SpecError(f"{spec!r} does not say how long a sample is", hint="name a field, a position, or give a function")


def _field(sample: Any, name: str) -> Any:
    if not isinstance(sample, Mapping):
        raise SpecError(
            f"the sample is a {type(sample).__name__}, which has no field {name!r}",
            hint="give the position of the value, as in length=0, or a function",
        )
    return getfirst(sample, [name])
