"""Samples for which an expression is true, found in the background; only the fields that it names are read."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import islice
from typing import Any

from webdataset import tools
from webdataset.errors import SpecError, WebDatasetError

from ._background_jobs import Job
from ._catalog import Catalog
from ._field_kind import FieldKind, field_kind
from ._shard_view import Member, ShardView

_AT_A_TIME = 500
_MOST_ROWS = 1000
_PLAIN = frozenset({FieldKind.TEXT, FieldKind.LABEL, FieldKind.JSON})
_MOST_PLAIN = 1_000_000


class Matches:
    """The numbers of the samples that match, while they are found.

    Attributes:
        numbers: sorted.
        failed: samples for which the expression could not be computed.
        reason: the error for the first of them.
    """

    def __init__(self) -> None:
        self.numbers = array("q")
        self.failed = 0
        self.reason = ""

    def fail(self, error: Exception, samples: int = 1) -> None:
        """Note that the expression could not be computed for so many samples."""
        self.failed += samples
        self.reason = self.reason or str(error)


class _Sized:
    """A field of which only the size is known: what `size(jpg)` and `has(jpg)` need."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


def filter_samples(catalog: Catalog, where: tools.Expression, job: Job) -> Matches:
    """Find the samples for which an expression is true; the work of a job, whose `partial` grows.

    >>> from webdataset.testing import make_shard
    >>> from webdataset.tools import Expression
    >>> shard = make_shard("memory://doc-filter/a.tar", [{"__key__": f"{n}", "cls": n} for n in range(5)])
    >>> with Catalog(shard) as catalog:
    ...     catalog.wait()
    ...     filter_samples(catalog, Expression("cls > 2"), Job(1, "filter")).numbers.tolist()
    [3, 4]
    """
    words = set(re.findall(r"\w+", where.source.lower()))
    catalog.wait(lambda: job.advance(0))
    matches = job.partial = Matches()
    job.advance(0, len(catalog))
    for _, start, view in catalog.views():
        if isinstance(view, WebDatasetError):
            matches.fail(view)
            continue
        for first in range(0, len(view), _AT_A_TIME):
            numbers = range(first, min(first + _AT_A_TIME, len(view)))
            _match(view, start, numbers, words, where, matches)
            job.advance(len(numbers))
    return matches


def _match(
    view: ShardView, start: int, numbers: range, words: set[str], expression: tools.Expression, matches: Matches
) -> None:
    try:
        samples = _samples(view, numbers, words)
    except WebDatasetError as error:
        matches.fail(error, len(numbers))
        return
    for number, sample in zip(numbers, samples, strict=True):
        try:
            if expression(sample):
                matches.numbers.append(start + number)
        except SpecError as error:
            matches.fail(error)


def _samples(view: ShardView, numbers: range, words: set[str]) -> list[dict[str, Any]]:
    """Samples for an expression: bytes of the plain fields that it names, sizes of the others."""
    members = [view.members(number) for number in numbers]
    read = {
        each.field
        for some in members
        for each in some
        if field_kind(each.field) in _PLAIN and each.size <= _MOST_PLAIN and words & set(re.findall(r"\w+", each.field))
    }
    whole = [n for n, some in zip(numbers, members, strict=True) if not _has_large(some, read)] if read else []
    known = dict(zip(whole, view.samples(whole, sorted(read)) if whole else [], strict=True))
    return [
        {each.field: _Sized(each.size) for each in some}
        | {"__key__": view.key(number), "__url__": view.url}
        | {name: data for name, data in known.get(number, {}).items() if name in read}
        for number, some in zip(numbers, members, strict=True)
    ]


def _has_large(members: Sequence[Member], read: set[str]) -> bool:
    """Whether a sample has a field that is read from other samples and is too large to be read here."""
    return any(each.field in read and each.size > _MOST_PLAIN for each in members)


def run_sql(catalog: Catalog, sql: str, index: str | None, job: Job) -> dict[str, Any]:
    """Run a query in SQL; the work of a job. It can access the table of samples, but no files and no network."""
    job.advance(0, len(catalog.urls))
    locked = f"set enable_external_access=false; set lock_configuration=true; {sql}"
    with tools.query(locked, catalog.urls, index=index, advance=job.advance) as answer:
        first = islice(answer.rows(), _MOST_ROWS)
        rows = [[None if value is None else str(value) for value in row] for row in first]
        return {"columns": list(answer.columns), "rows": rows, "most": _MOST_ROWS}
