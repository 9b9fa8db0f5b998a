"""`partition`: train, validation and test parts of a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property

from webdataset import stores
from webdataset.errors import SpecError

from ._expression import Expression
from ._output_target import Series, parse_target, refuse_outputs
from ._random_shares import Shares
from ._read_inputs import CountStage, Inputs, Sample, expand_inputs, read_list, read_samples
from ._report import Report, collect_failures, failure_handler
from ._verb_options import DEFAULTS, Options, advancing
from ._write_samples import SeriesWriter, description_of


@dataclass(frozen=True)
class Parts:
    """Which part a sample goes to: by lists of keys, by expressions, then by random shares; None for none.

    >>> parts = Parts(lists={"val": frozenset({"a"})}, shares={"train": 1.0})
    >>> parts({"__key__": "a"}), parts({"__key__": "b"})
    ('val', 'train')
    """

    lists: Mapping[str, frozenset[str]] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0

    @property
    def names(self) -> list[str]:
        """All parts."""
        return list(dict.fromkeys([*self.lists, *self.where, *self.shares]))

    def __post_init__(self) -> None:
        if not self.names:
            raise SpecError("no parts are given", hint="give shares: train=0.9 val=0.1")
        for name in self.names:
            if not name or "/" in name:
                raise SpecError(f"{name!r} cannot name a part", hint="use a word, such as train")
        _ = self._expressions, self._by_share  # invalid expressions and shares are refused here

    @cached_property
    def _expressions(self) -> dict[str, Expression]:
        return {name: Expression(text) for name, text in self.where.items()}

    @cached_property
    def _by_share(self) -> Shares | None:
        return Shares(self.shares, self.seed) if self.shares else None

    def __call__(self, sample: Sample) -> str | None:
        """The part of a sample."""
        key: str = sample["__key__"]
        for name, keys in self.lists.items():
            if key in keys:
                return name
        for name, expression in self._expressions.items():
            if expression(sample):
                return name
        return None if self._by_share is None else self._by_share.part(key)


def read_lists(lists: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """The keys of each part, from text files; a key in two of them is an error."""
    found = {name: frozenset(read_list(url)) for name, url in lists.items()}
    seen: dict[str, str] = {}
    for name, keys in found.items():
        for key in keys:
            if seen.setdefault(key, name) != name:
                raise SpecError(f"the key {key!r} is in the lists of {seen[key]!r} and {name!r}", hint="keep one")
    return found


def partition(
    inputs: Inputs, output: str | os.PathLike[str], parts: Parts, options: Options = DEFAULTS
) -> dict[str, Report]:
    """Write every sample to the part it belongs to, in one pass; the report of each part.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-part/a.tar", [{"__key__": f"{n}", "cls": n} for n in range(100)])
    >>> reports = partition(shard, "memory://doc-part/{part}-%d.tar", Parts(shares={"train": 0.8, "val": 0.2}))
    >>> sum(report.samples_out for report in reports.values())
    100

    Args:
        inputs: shards.
        output: the names of the shards with `{part}` and a place for the number: "{part}-%06d.tar".
        parts: which sample goes where.
        options: how to write.
    """
    source, handler = CountStage(), failure_handler(options.errors)
    samples = read_samples(expand_inputs(inputs), [source], handler=handler)
    with collect_failures() as failures:
        reports = write_parts(samples, stores.as_address(output), parts, options)
    return {name: replace(report, samples_in=source.count, failed=tuple(failures)) for name, report in reports.items()}


def write_parts(samples: Iterable[Sample], output: str, parts: Parts, options: Options) -> dict[str, Report]:
    """Write samples to the series of the parts they belong to, each with its description `part.json`.

    Samples of no part are left out.
    """
    series = {name: _series(output, name) for name in parts.names}
    options_of = {name: replace(options, description=description_of(target)) for name, target in series.items()}
    for name, target in series.items():
        refuse_outputs(target, options_of[name])
    if options.dry_run:
        return {name: Report(outputs=(target.text,)) for name, target in series.items()}
    with ExitStack() as stack:
        sinks = {
            name: stack.enter_context(SeriesWriter(target.text, options_of[name])) for name, target in series.items()
        }
        for sample in advancing(samples, options.advance):
            part = parts(sample)
            if part is not None:
                sinks[part].write(sample)
    return {name: sink.report() for name, sink in sinks.items()}


def _series(output: str, part: str) -> Series:
    if "{part}" not in output:
        raise SpecError(f"{output!r} has no placeholder for the part's name", hint="write -o '{part}-%06d.tar'")
    target = parse_target(output.replace("{part}", part.replace("%", "%%")))
    if not isinstance(target, Series):
        raise SpecError(f"{output!r} has no placeholder for the number", hint="write -o '{part}-%06d.tar'")
    return target
