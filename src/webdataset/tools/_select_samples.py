"""`select`: some of the samples."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from webdataset import stores
from webdataset.describe import counted
from webdataset.errors import SpecError
from webdataset.flow import digest

from ._expression import Expression
from ._random_shares import Shares
from ._read_inputs import Inputs, Sample, read_list
from ._report import Failure, Report
from ._run_stages import transform
from ._verb_options import DEFAULTS, Options


@dataclass(frozen=True)
class Criteria:
    """A stage that selects the samples for which all given conditions hold.

    >>> criteria = Criteria(fields=("jpg",), where="cls > 3")
    >>> [sample["__key__"] for sample in criteria(iter([{"__key__": "a", "jpg": b"", "cls": b"4"}, {"__key__": "b"}]))]
    ['a']

    Attributes:
        keys: only samples with these keys.
        fields: only samples that have these fields.
        where: only samples for which this expression is true (`_expression`).
        share: only this share of the samples, chosen by a hash of seed and key.
        seed: for `share`.
        invert: the samples that do not fit, instead.
    """

    keys: frozenset[str] | None = None
    fields: tuple[str, ...] = ()
    where: str | None = None
    share: float | None = None
    seed: int = 0
    invert: bool = False

    def __post_init__(self) -> None:
        if self.where is not None:
            Expression(self.where)
        if self.share is not None:
            Shares({"part": self.share})

    def words(self) -> str:
        """These criteria, the same text in every process."""
        keys = None if self.keys is None else f"{len(self.keys)} keys {digest(*sorted(self.keys)):016x}"
        return repr((keys, self.fields, self.where, self.share, self.seed, self.invert))

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The samples that fit: this is a stage."""
        where = Expression(self.where) if self.where is not None else None
        shares = Shares({"part": self.share}, self.seed) if self.share is not None else None
        for sample in samples:
            fits = (
                (self.keys is None or sample["__key__"] in self.keys)
                and all(field in sample for field in self.fields)
                and (shares is None or shares.part(sample["__key__"]) is not None)
                and (where is None or bool(where(sample)))
            )
            if fits != self.invert:
                yield sample


def select(
    inputs: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    where: str | None = None,
    keys: str | os.PathLike[str] | Sequence[str] | None = None,
    fields: Sequence[str] = (),
    share: float | None = None,
    invert: bool = False,
    allow_missing: bool = False,
) -> Report:
    """Write the samples that fit; their order stays.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-select/a.tar", [{"__key__": f"{n}", "cls": n} for n in range(5)])
    >>> select(shard, "memory://doc-select/b.tar", where="cls % 2 == 0").samples_out
    3

    Args:
        inputs: shards.
        output: one archive, a series, or a folder.
        options: how to write and run.
        where: an expression.
        keys: a list of keys, or the address of a text file with one key per line.
        fields: fields that a sample must have.
        share: a random share between 0 and 1.
        invert: the samples that do not fit.
        allow_missing: keys of the list that no sample has are no error.
    """
    if where is None and keys is None and not fields and share is None:
        raise SpecError("no condition is given for the samples", hint="give --where, --keys, --field or --share")
    wanted = None if keys is None else _keys(keys)
    criteria = Criteria(wanted, tuple(fields), where, share, options.seed, invert)
    job = f"select {criteria.words()}"
    report = transform([criteria], inputs, output, options, job=job, named=criteria.fields)
    if report.samples_in and not report.samples_out and not report.failed:
        what = f"none of {counted(report.samples_in, 'sample')} fits: check the names of fields; `wds ls` lists them"
        report = replace(report, notes=(*report.notes, what))
    only_keys = wanted is not None and not (where or fields or share or invert or report.skipped or options.dry_run)
    if wanted is None or not only_keys or allow_missing or report.samples_out >= len(wanted):
        return report
    missing = len(wanted) - report.samples_out
    return replace(report, failed=(*report.failed, Failure("keys", f"{missing} of {len(wanted)} keys were not found")))


def _keys(keys: str | os.PathLike[str] | Sequence[str]) -> frozenset[str]:
    found = frozenset(read_list(stores.as_address(keys)) if isinstance(keys, str | os.PathLike) else keys)
    if not found:
        raise SpecError("the list of keys is empty", hint="write one key per line")
    return found
