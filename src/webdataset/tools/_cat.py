"""`cat`: shards one after the other, as one stream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from webdataset.errors import FormatError, SpecError, Where
from webdataset.flow import Stage
from webdataset.stages import shuffle as shuffle_stage

from ._read_inputs import Inputs, Sample
from ._report import Report
from ._target import PerShard, parse_target
from ._transform import transform
from ._verb_options import DEFAULTS, Options


@dataclass(frozen=True)
class Rekey:
    """Give samples new keys: consecutive numbers in a format.

    >>> [sample["__key__"] for sample in Rekey("{:03d}")(iter([{"__key__": "x"}, {"__key__": "y"}]))]
    ['000', '001']
    """

    format: str = "{:09d}"

    def __post_init__(self) -> None:
        try:
            distinct = self.format.format(0) != self.format.format(1)
        except (ValueError, IndexError, KeyError) as error:
            raise SpecError(f"{self.format!r} cannot number keys: {error}", hint="write '{:09d}'") from error
        if not distinct:
            raise SpecError(f"{self.format!r} has no place for a number", hint="write '{:09d}'")

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The same samples: this is a stage."""
        for number, sample in enumerate(samples):
            yield {**sample, "__key__": self.format.format(number)}


@dataclass(frozen=True)
class Stretch:
    """A stretch of the samples, as `lo:hi:step` selects it from a list; `n` alone is one sample.

    >>> list(Stretch("1:6:2")(iter("abcdefg"))), list(Stretch("2")(iter("abc")))
    (['b', 'd', 'f'], ['c'])
    """

    text: str

    def __post_init__(self) -> None:
        self.bounds()

    def bounds(self) -> tuple[int | None, ...]:
        """First, end and step, as far as they are given."""
        try:
            numbers = [int(word) if word else None for word in self.text.split(":")]
            if len(numbers) > 3 or any(number is not None and number < 0 for number in numbers) or numbers[2:] == [0]:
                raise ValueError(self.text)
        except ValueError as error:
            raise SpecError(f"{self.text!r} is not a slice", hint="write lo:hi or lo:hi:step") from error
        first = numbers[0] or 0
        return tuple(numbers) if len(numbers) > 1 else (first, first + 1)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The samples of the stretch: this is a stage."""
        return islice(samples, *self.bounds())


@dataclass(frozen=True)
class FieldChoice:
    """Keep fields: `name`, `a,b` (the first that is there, under its own name), `new:old1,old2` (renamed).

    >>> choice = FieldChoice("image:jpg,png cls")
    >>> list(choice(iter([{"__key__": "a", "png": b"...", "cls": b"3", "txt": b"x"}])))
    [{'__key__': 'a', 'image': b'...', 'cls': b'3'}]

    A sample without a field that is asked for is an error.
    """

    text: str

    def __post_init__(self) -> None:
        self.parsed()

    def parsed(self) -> list[tuple[str | None, list[str]]]:
        """(new name or None, old names) of each word."""
        words = []
        for word in self.text.split():
            new, colon, old = word.rpartition(":")
            names = old.split(",")
            if (colon and not new) or not all(names) or any(name.startswith("_") for name in (new, *names)):
                raise SpecError(f"{word!r} does not choose a field", hint="write jpg, 'jpg,png' or 'image:jpg,png'")
            words.append((new or None, names))
        if not words:
            raise SpecError("no field is chosen", hint="name at least one field")
        return words

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The samples with these fields: this is a stage."""
        words = self.parsed()
        for sample in samples:
            chosen: Sample = {"__key__": sample["__key__"]}
            for new, names in words:
                found = next((name for name in names if name in sample), None)
                if found is None:
                    raise FormatError(
                        f"the sample has none of the fields {', '.join(names)}",
                        Where(key=sample["__key__"], shard=sample.get("__url__")),
                        hint="select the samples that have it first: wds select --field",
                    )
                chosen[new or found] = sample[found]
            yield chosen


def cat(
    inputs: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    fields: str | None = None,
    shuffle: int = 0,
    slice: str | None = None,  # noqa: A002 - the name of the option
    rekey: str | None = None,
) -> Report:
    """Write the samples of all inputs to one output.

    >>> from webdataset.testing import make_shard
    >>> shards = [make_shard(f"memory://doc-cat/{n}.tar", [{"__key__": n, "txt": n}]) for n in "ab"]
    >>> cat(shards, "memory://doc-cat/all.tar").samples_out
    2

    Args:
        inputs: shards.
        output: one archive, or a series.
        options: how to write.
        fields: which fields to keep, and under which names: see `FieldChoice`.
        shuffle: shuffle in a buffer of so many samples; `wds shuffle` is the full permutation.
        slice: a stretch of the combined samples, `lo:hi:step`.
        rekey: number the keys in this format, `{:09d}`.
    """
    if isinstance(parse_target(output), PerShard) and (slice is not None or rekey is not None):
        raise SpecError(
            "a slice and numbered keys count the samples of all inputs, and each input has an output of its own",
            hint="write one archive or a series: -o 'out-%06d.tar'",
        )
    stages: list[Stage] = []
    if slice is not None:
        stages.append(Stretch(slice))
    if fields is not None:
        stages.append(FieldChoice(fields))
    if shuffle:
        stages.append(shuffle_stage(shuffle))
    if rekey is not None:
        stages.append(Rekey(rekey))
    return transform(stages, inputs, output, options, job=f"cat {fields} {shuffle} {slice} {rekey}")
