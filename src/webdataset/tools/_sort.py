"""`sort` and `shuffle`: all samples in another order, also of a dataset that is larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from webdataset.errors import FormatError, SpecError, Where
from webdataset.flow import digest

from ._expression import Expression
from ._external_sort import external_sort
from ._read_inputs import Inputs, Sample
from ._report import Report
from ._transform import transform
from ._verb_options import DEFAULTS, Options

MEMORY = 512_000_000


@dataclass(frozen=True)
class SortStage:
    """All samples, sorted by an expression.

    >>> stage = SortStage("cls")
    >>> [s["__key__"] for s in stage(iter([{"__key__": "a", "cls": b"10"}, {"__key__": "b", "cls": b"9"}]))]
    ['b', 'a']

    Attributes:
        by: the sort key, an expression: `key`, `cls`, `json.score`, `int(txt)`.
        reverse: the largest first.
        missing: samples whose sort key is None: "error", or come "first" or "last".
        memory: how many bytes of samples are held at a time.
        folder: where temporary files go.
    """

    by: str = "key"
    reverse: bool = False
    missing: str = "error"
    memory: int = MEMORY
    folder: str | None = None

    def __post_init__(self) -> None:
        Expression(self.by)
        if self.missing not in {"error", "first", "last"}:
            raise SpecError(f"missing={self.missing!r} is not known", hint="take error, first or last")

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The samples in order: this is a stage."""
        return external_sort(self._rows(samples), memory=self.memory, reverse=self.reverse, folder=self.folder)

    def _rows(self, samples: Iterator[Sample]) -> Iterator[tuple[Any, Sample]]:
        evaluate = Expression(self.by)
        first = self.missing == "first"
        for sample in samples:
            value = evaluate(sample)
            if value is None and self.missing == "error":
                raise FormatError(
                    f"the sample has no value for {self.by!r}",
                    Where(key=sample["__key__"], shard=sample.get("__url__")),
                    hint="put such samples first or last: --missing last",
                )
            # In reverse order everything turns round, but "first" stays first.
            group = (1 if value is not None else 0 if first else 2) * (-1 if self.reverse else 1)
            yield ((group,) if value is None else (group, value)), sample


@dataclass(frozen=True)
class ShuffleStage:
    """All samples in a random order: each possible order is equally likely.

    >>> stage = ShuffleStage(seed=1)
    >>> [sample["__key__"] for sample in stage(iter([{"__key__": key} for key in "abcdef"]))]
    ['d', 'e', 'b', 'a', 'c', 'f']

    The samples are sorted by a random number each, which seed and position decide.
    """

    seed: int = 0
    memory: int = MEMORY
    folder: str | None = None

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The samples in a random order: this is a stage."""
        rows = ((digest("shuffle", self.seed, number), sample) for number, sample in enumerate(samples))
        return external_sort(rows, memory=self.memory, folder=self.folder)


def sort(
    inputs: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    by: str = "key",
    reverse: bool = False,
    missing: str = "error",
    memory: int = MEMORY,
    folder: str | None = None,
) -> Report:
    """Write the samples in the order of an expression; samples that are equal in it keep their order.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-sort/a.tar", [{"__key__": k, "cls": len(k)} for k in ("aa", "bbb", "c")])
    >>> sort(shard, "memory://doc-sort/b.tar", by="cls").samples_out
    3

    Args:
        inputs: shards. With one output for each input, each shard is sorted by itself.
        output: one archive, a series, or a folder.
        options: how to write and run.
        by: see `SortStage`, as all that follow.
        reverse: the largest first.
        missing: samples without a value.
        memory: how many bytes of samples are held at a time.
        folder: where temporary files go.
    """
    stage = SortStage(by, reverse, missing, memory, folder)
    return transform([stage], inputs, output, options, job=f"sort {by} {reverse} {missing}")


def shuffle(
    inputs: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    memory: int = MEMORY,
    folder: str | None = None,
) -> Report:
    """Write the samples in a random order: a full permutation, decided by `options.seed`.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-shuffle/a.tar", [{"__key__": key, "txt": key} for key in "abc"])
    >>> shuffle(shard, "memory://doc-shuffle/b.tar").samples_out
    3

    Args:
        inputs: shards. With one output for each input, each shard is shuffled by itself.
        output: one archive, a series, or a folder.
        options: how to write and run.
        memory: how many bytes of samples are held at a time.
        folder: where temporary files go.
    """
    stage = ShuffleStage(options.seed, memory, folder)
    return transform([stage], inputs, output, options, job=f"shuffle {options.seed}")
