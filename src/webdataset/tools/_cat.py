"""`cat`: shards one after the other, as one stream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from webdataset.errors import FormatError, SpecError
from webdataset.flow import Stage
from webdataset.stages import shuffle as shuffle_stage
from webdataset.stages import slice as slice_stage

from ._output_target import PerShard, parse_target
from ._read_inputs import Inputs, Sample, where_of
from ._report import Report
from ._run_stages import transform
from ._verb_options import DEFAULTS, Options


def numbered_keys(template: str) -> Stage:
    """A stage that gives samples new keys: consecutive numbers in a template of `str.format`.

    >>> [sample["__key__"] for sample in numbered_keys("{:03d}")(iter([{"__key__": "x"}, {"__key__": "y"}]))]
    ['000', '001']
    """
    try:
        distinct = template.format(0) != template.format(1)
    except (ValueError, IndexError, KeyError) as error:
        raise SpecError(f"{template!r} cannot number keys: {error}", hint="write '{:09d}'") from error
    if not distinct:
        raise SpecError(f"{template!r} has no placeholder for the number", hint="write '{:09d}'")
    return partial(_number_keys, template)


def _number_keys(template: str, samples: Iterator[Sample]) -> Iterator[Sample]:
    for number, sample in enumerate(samples):
        yield {**sample, "__key__": template.format(number)}


def slice_samples(text: str) -> Stage:
    """A stage that yields a slice of the samples: `lo:hi:step` as for a list; `n` alone is one sample.

    >>> list(slice_samples("1:6:2")(iter("abcdefg"))), list(slice_samples("2")(iter("abc")))
    (['b', 'd', 'f'], ['c'])
    """
    try:
        numbers = [int(word) if word else None for word in text.split(":")]
        first = numbers[0] or 0
        return slice_stage(*numbers) if len(numbers) > 1 else slice_stage(first, first + 1)
    except ValueError as error:  # of `int`, or what the stage refuses
        raise SpecError(f"{text!r} is not a slice", hint="write lo:hi or lo:hi:step") from error


def chosen_fields(text: str) -> Stage:
    """A stage that keeps fields: `name`, `a,b` (the first that a sample has), `new:old1,old2` (under another name).

    >>> keep = chosen_fields("image:jpg,png cls")
    >>> list(keep(iter([{"__key__": "a", "png": b"...", "cls": b"3", "txt": b"x"}])))
    [{'__key__': 'a', 'image': b'...', 'cls': b'3'}]

    A sample without one of these fields is an error.
    """
    words = []
    for word in text.split():
        new, colon, old = word.rpartition(":")
        names = old.split(",")
        if (colon and not new) or not all(names) or any(name.startswith("_") for name in (new, *names)):
            raise SpecError(f"{word!r} does not choose a field", hint="write jpg, 'jpg,png' or 'image:jpg,png'")
        words.append((new, names))
    if not words:
        raise SpecError("no field is chosen", hint="name at least one field")
    return partial(_choose_fields, words)


def _choose_fields(words: list[tuple[str, list[str]]], samples: Iterator[Sample]) -> Iterator[Sample]:
    """`words` are pairs of a new name, which may be empty, and old names."""
    for sample in samples:
        chosen: Sample = {"__key__": sample["__key__"]}
        for new, names in words:
            found = next((name for name in names if name in sample), None)
            if found is None:
                raise FormatError(
                    f"the sample has none of the fields {', '.join(names)}",
                    where_of(sample),
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
        fields: which fields to keep, and under which names: see `chosen_fields`.
        shuffle: shuffle in a buffer of so many samples; `wds shuffle` is the full permutation.
        slice: a slice of the combined samples, `lo:hi:step`.
        rekey: number the keys in this format, `{:09d}`.
    """
    if isinstance(parse_target(output), PerShard) and (slice is not None or rekey is not None):
        raise SpecError(
            "a slice and numbered keys count the samples of all inputs, and each input has an output of its own",
            hint="write one archive or a series: -o 'out-%06d.tar'",
        )
    stages: list[Stage] = []
    if slice is not None:
        stages.append(slice_samples(slice))
    if fields is not None:
        stages.append(chosen_fields(fields))
    if shuffle:
        stages.append(shuffle_stage(shuffle))
    if rekey is not None:
        stages.append(numbered_keys(rekey))
    return transform(stages, inputs, output, options, job=f"cat {fields} {shuffle} {slice} {rekey}")
