"""`wds check`: what is wrong with a dataset, shard by shard and as a whole."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from webdataset.index import ShardEntry, read_description
from webdataset.redact import hides_secrets

from ._check_shard import check_shard
from ._engines import open_engine
from ._findings import Finding, Findings, Kind, Severity, Target
from ._hugging_face_types import HF_SAMPLES, type_faults
from ._key_table import KeyTable
from ._read_inputs import Inputs, expand_inputs, input_specs
from ._shard_report import CheckOptions, Place, ShardReport, common_fields

# If at least this share of the samples have a field, its absence from the others is a finding.
_COMMON = 0.95
_ENOUGH = 20
_MOST_SETS = 10_000
_MOST_LISTED = 100_000


@hides_secrets
@dataclass(frozen=True, slots=True)
class CheckReport:
    """The report of a check on a dataset.

    Attributes:
        shards: how many shards were read.
        samples: how many samples they have.
        members: how many members of any type.
        size: how many bytes, as they are stored.
        findings: the faults: of each kind the first hundred of a shard.
        counts: how many faults there are of each kind.
        damaged: the shards with an error or a warning that concerns the shard alone.
    """

    shards: int
    samples: int
    members: int
    size: int
    findings: tuple[Finding, ...]
    counts: dict[Kind, int]
    damaged: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there are no errors and no warnings."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)

    def of(self, severity: Severity) -> list[Finding]:
        """The findings of one severity."""
        return [finding for finding in self.findings if finding.severity is severity]


def check(
    inputs: Inputs,
    options: CheckOptions | None = None,
    *,
    jobs: int = 1,
    across: bool = True,
    on_shard: Callable[[ShardReport], None] | None = None,
) -> CheckReport:
    """Read every shard once and report everything that is wrong.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-check/b.tar", [{"__key__": "0", "txt": "hello"}])
    >>> check(shard).ok
    True

    Memory: the largest member for each job, plus what `KeyTable` takes for the keys of all shards.

    Args:
        inputs: shards, or a description, whose sizes, MD5 sums and counts are then compared.
        options: what to check.
        jobs: how many processes; with fewer shards than jobs, threads in each decode the samples.
        across: whether keys are compared across shards.
        on_shard: called after each shard.
    """
    options = options or CheckOptions()
    dataset = _Dataset(options)
    entries = dataset.distinct(_entries(inputs))
    with KeyTable() as keys, closing(_reports(entries, options, max(1, jobs))) as reports:
        for number, report in enumerate(reports):
            dataset.add(report)
            if across:
                keys.add(number, report.keys, report.offsets)
            if on_shard is not None:
                on_shard(report)
        dataset.compare_keys(keys, list(entries))
    return dataset.finish()


# Shards to check, each with its entry in the description, if there is one.
_Entries = dict[str, ShardEntry | None]


def _entries(inputs: Inputs) -> Iterator[tuple[str, ShardEntry | None]]:
    for spec in input_specs(inputs):
        if spec.endswith(".json"):
            yield from ((entry.url, entry) for entry in read_description(spec).shards)
        else:
            yield from ((url, None) for url in expand_inputs([spec]))


def _reports(tasks: _Entries, options: CheckOptions, jobs: int) -> Generator[ShardReport, None, None]:
    """The reports of all shards, in order; at most two tasks for each process are submitted at a time."""
    processes = min(jobs, len(tasks))
    if processes < 2:
        options = replace(options, threads=jobs)
        yield from (check_shard(url, options, entry) for url, entry in tasks.items())
        return
    options = replace(options, threads=max(1, jobs // processes))
    waiting = iter(tasks.items())
    with open_engine(None, processes) as engine:
        running: deque[Any] = deque()
        while True:
            more = islice(waiting, 2 * processes - len(running))
            running.extend(engine.submit(check_shard, url, options, entry) for url, entry in more)
            if not running:
                return
            yield running.popleft().result()


@dataclass(slots=True)
class _Dataset:
    """The report on a dataset, collected from the reports of its shards."""

    options: CheckOptions
    shards: int = 0
    samples: int = 0
    members: int = 0
    size: int = 0
    listed: list[Finding] = field(default_factory=list)
    counts: Counter[Kind] = field(default_factory=Counter)
    damaged: list[str] = field(default_factory=list)
    own: Findings = field(default_factory=Findings)
    field_sets: dict[frozenset[str], tuple[int, tuple[str, Place]]] = field(default_factory=dict)
    first: ShardReport | None = None
    types: dict[tuple[str, ...], dict[str, tuple[str, Place]]] = field(default_factory=dict)
    not_checked: set[str | None] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.own = Findings(None, self.options.targets)

    def distinct(self, entries: Iterable[tuple[str, ShardEntry | None]]) -> _Entries:
        """The shards without duplicates; a shard that is listed twice is a finding."""
        found: _Entries = {}
        for url, entry in entries:
            if url in found:
                self.own.add(Kind.LISTED_TWICE, "the shard is listed twice", shard=url)
            found.setdefault(url, entry)
        return found

    def add(self, report: ShardReport) -> None:
        """Add the report of one shard."""
        self.shards += 1
        self.samples += report.samples
        self.members += report.members
        self.size += report.size
        self._add_findings(report.findings)
        if any(finding.severity is not Severity.NOTE for finding in report.findings.listed):
            self.damaged.append(report.url)
        for names, (count, place) in report.field_sets.items():
            before, first = self.field_sets.get(names, (0, (report.url, place)))
            if before or len(self.field_sets) < _MOST_SETS:
                self.field_sets[names] = (before + count, first)
        self.first = self.first or report
        for path, kinds in report.types.items():
            known = self.types.setdefault(path, {})
            for kind, place in kinds.items():
                known.setdefault(kind, (report.url, place))

    def compare_keys(self, keys: KeyTable, urls: Sequence[str]) -> None:
        """Add one finding for each pair of shards with keys in common."""
        counts: Counter[tuple[int, int]] = Counter()
        places: dict[tuple[int, int], Place] = {}
        for duplicate in keys.duplicates():
            pair = duplicate.first, duplicate.again
            counts[pair] += 1
            places.setdefault(pair, Place(duplicate.key, duplicate.offset))
        for (first, again), count in sorted(counts.items()):
            more = f", and {count - 1:,} more keys of this shard" if count > 1 else ""
            what = f"this key{more} {'are' if count > 1 else 'is'} in {urls[first]} too"
            self._add_at(Kind.DUPLICATE_KEY, what, urls[again], places[first, again], times=count)

    def finish(self) -> CheckReport:
        """The report on all shards."""
        if self.options.fields is None:
            self._find_unusual_fields()
        if Target.HUGGING_FACE in self.options.targets and self.first is not None:
            self._find_hugging_face_faults(self.first)
        self._add_findings(self.own)
        return CheckReport(
            self.shards,
            self.samples,
            self.members,
            self.size,
            tuple(self.listed),
            dict(self.counts),
            tuple(self.damaged),
        )

    def _add_findings(self, findings: Findings) -> None:
        for finding in findings.listed:
            if finding.kind is Kind.NOT_CHECKED:
                if finding.field in self.not_checked:
                    continue
                self.not_checked.add(finding.field)
            if len(self.listed) < _MOST_LISTED:
                self.listed.append(finding)
        self.counts.update(findings.counts)

    def _find_unusual_fields(self) -> None:
        total = sum(count for count, _ in self.field_sets.values())
        common = common_fields(self.field_sets, _COMMON) if total >= _ENOUGH else frozenset()
        for names, (count, (url, place)) in self.field_sets.items():
            for name in sorted(common - names):
                what = f"{count:,} of {total:,} samples have the fields {' '.join(sorted(names))} and no {name!r}"
                self._add_at(Kind.UNUSUAL_FIELDS, what, url, place, field=name, times=count)

    def _find_hugging_face_faults(self, first: ShardReport) -> None:
        if len(set(first.first_fields)) > 1:
            sets = "; ".join(" ".join(sorted(names)) for names in dict.fromkeys(first.first_fields))
            what = f"the first {HF_SAMPLES} samples have different fields ({sets}), so load_dataset refuses the shards"
            self.own.add(Kind.HF_FIELDS, what, shard=first.url)
        known = frozenset().union(*first.first_fields)
        for names, (count, (url, place)) in self.field_sets.items():
            for name in sorted(names - known):
                what = (
                    f"{count:,} samples have this field, none of the first {HF_SAMPLES} has it: it is dropped silently"
                )
                self._add_at(Kind.HF_EXTRA_FIELD, what, url, place, field=name, times=count)
        for kind, what, (url, place) in type_faults(first.first_types, self.types):
            self._add_at(kind, what, url, place)

    def _add_at(self, kind: Kind, what: str, url: str, place: Place, **more: Any) -> None:
        self.own.add(kind, what, shard=url, key=place.key, offset=place.offset, **more)
