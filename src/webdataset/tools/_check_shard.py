"""Check one shard by reading it once."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass, replace

from webdataset import stores, tar
from webdataset.decompress import find_compression
from webdataset.errors import FormatError, ShardNotFound, WebDatasetError
from webdataset.index import IndexBuilder, ShardEntry, load_index
from webdataset.names import is_meta, split_name
from webdataset.read_methods import Watched
from webdataset.samples import OWN_FIELDS

from ._check_decoding import DecodeChecker
from ._findings import Findings, Kind, Target
from ._hugging_face_types import HF_SAMPLES, value_types
from ._index_files import index_difference
from ._portable_names import ShardNames
from ._shard_report import CheckOptions, Place, ShardReport

REGULAR, LINKS, FOLDER = frozenset({b"0", b"\0", b"7"}), {b"1": Kind.HARD_LINK, b"2": Kind.SYMBOLIC_LINK}, b"5"
_DEVICES = frozenset({b"3", b"4", b"6"})
_CONTINUED = b"M"
_PICKLES = frozenset({"pkl", "pickle", "pyd"})
_MOST_PATHS = 1000


def check_shard(url: str, options: CheckOptions, entry: ShardEntry | None = None) -> ShardReport:
    """Read a shard once and report everything that is wrong with it.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-check/a.tar", [{"__key__": "0", "txt": "hello"}])
    >>> report = check_shard(shard, CheckOptions())
    >>> report.samples, report.findings.listed
    (1, [])
    """
    if entry is None or entry.md5sum is None:
        options = replace(options, checksums=False)
    check = _ShardCheck(url, options)
    with closing(check):
        check.run()
    check.compare_index()
    if entry is not None:
        check.compare_entry(entry)
    return check.report


class _ShardCheck:
    """One check of one shard, member by member."""

    def __init__(self, url: str, options: CheckOptions) -> None:
        self._options = options
        self._findings = Findings(url, options.targets)
        self.report = ShardReport(url, findings=self._findings)
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._index = IndexBuilder()
        self._decoding = DecodeChecker(self._findings, options.threads) if options.decode else None
        self._sample: _Sample | None = None
        self._seen: dict[str, int] = {}
        self._names = ShardNames(self._findings)
        self._damaged = self._opened = False

    def run(self) -> None:
        """Read the shard from its first byte to its last."""
        url = self.report.url
        try:
            with stores.open_read(url) as stream:
                self._opened = True
                for found in tar.survey(Watched(stream, self._count_bytes)):
                    if isinstance(found, tar.Damage):
                        self._damaged = True
                        kind = Kind(found.kind.value)  # type: ignore[call-arg]  # by its value
                        self._findings.add(kind, found.what, offset=found.offset, member=found.name)
                    else:
                        self._add_member(found)
        except ShardNotFound as error:
            self._findings.add(Kind.MISSING_SHARD, error.what)
        except (WebDatasetError, OSError) as error:
            what = error.what if isinstance(error, WebDatasetError) else str(error)
            self._findings.add(Kind.UNREADABLE_SHARD, what, offset=self.report.size if self._opened else None)
            self._opened = False
        self._finish_sample()
        if self._opened and not self._damaged and not self.report.samples:
            self._findings.add(Kind.NO_SAMPLES, "the shard has no samples")
        self._check_order()

    def close(self) -> None:
        """End the threads."""
        if self._decoding is not None:
            self._decoding.close()

    def compare_index(self) -> None:
        """Compare the stored index with the shard."""
        url = self.report.url
        if not self._opened or self._damaged or url in {"", "-"}:
            return
        try:
            stored = load_index(url, self._options.index)
        except (WebDatasetError, OSError) as error:
            if isinstance(error, FormatError):
                self._findings.add(Kind.BAD_INDEX, f"the index cannot be read: {error.what}")
            return
        if stored is not None and (what := index_difference(stored, self._index.finish())):
            self._findings.add(Kind.STALE_INDEX, what)

    def compare_entry(self, entry: ShardEntry) -> None:
        """Compare the entry in the description with the shard."""
        if not self._opened:
            return
        report, add = self.report, self._findings.add
        if entry.filesize is not None and entry.filesize != report.size:
            add(Kind.WRONG_SIZE, f"the description says {entry.filesize:,} bytes, the shard has {report.size:,}")
        md5 = self._md5.hexdigest()
        if self._options.checksums and entry.md5sum is not None and entry.md5sum != md5:
            add(Kind.WRONG_MD5, f"the description says MD5 {entry.md5sum}, the shard has {md5}")
        if entry.nsamples != report.samples:
            add(Kind.WRONG_COUNT, f"the description says {entry.nsamples:,} samples, the shard has {report.samples:,}")

    def _count_bytes(self, data: bytes) -> None:
        """Count and hash the bytes that are read."""
        if not self.report.size and find_compression(data) is not None:
            self._findings.add(Kind.DALI_COMPRESSED, "DALI does not read compressed archives")
        self.report.size += len(data)
        if self._options.checksums:
            self._md5.update(data)

    def _add_member(self, member: tar.Surveyed) -> None:
        self.report.members += 1
        if member.kind == FOLDER:
            return
        if member.kind not in REGULAR:
            self._add_special(member)
            return
        self._names.check(member)
        key, ending = (None, None) if is_meta(member.name) else split_name(member.name)
        if key is None or ending is None:
            return
        self._index.add(member.name, member.data_offset, len(member.data))
        if self._sample is None or self._sample.key != key:
            self._finish_sample()
            self._begin_sample(key, member)
        assert self._sample is not None
        name = ending.lower()
        if name in OWN_FIELDS:
            return
        if name in self._sample.fields:
            what = "the sample has this field twice; upper and lower case make no difference"
            add = self._findings.add
            add(Kind.DUPLICATE_FIELD, what, key=key, member=member.name, field=name, offset=member.offset)
            return
        self._sample.fields[name] = member.data
        self._sample.offsets[name] = member.offset

    def _add_special(self, member: tar.Surveyed) -> None:
        if member.kind in LINKS:
            kind, what = LINKS[member.kind], f"a link to {member.link}: readers leave it out, so its field is missing"
        elif member.kind in _DEVICES:
            kind, what = Kind.DEVICE, "a device or named pipe; readers leave it out"
        elif member.kind == _CONTINUED:
            kind, what = Kind.CONTINUED, "the rest of a file of another volume"
        else:
            kind, what = Kind.UNKNOWN_TYPE, f"the type {member.kind!r} is not known; readers leave it out"
        self._findings.add(kind, what, member=member.name, key=split_name(member.name)[0], offset=member.offset)

    def _begin_sample(self, key: str, member: tar.Surveyed) -> None:
        if key in self._seen:
            what = f"the members of this sample are not adjacent: it began at byte {self._seen[key]:,}"
            self._findings.add(Kind.SPLIT_SAMPLE, what, key=key, member=member.name, offset=member.offset)
        self._sample = _Sample(key, member.offset, {}, {}, fresh=key not in self._seen)
        self._seen.setdefault(key, member.offset)

    def _finish_sample(self) -> None:
        sample, self._sample = self._sample, None
        if sample is None:
            return
        report, names = self.report, frozenset(sample.fields)
        report.samples += sample.fresh
        if sample.fresh:
            report.keys.append(sample.key)
            report.offsets.append(sample.offset)
        count, place = report.field_sets.get(names, (0, Place(sample.key, sample.offset)))
        report.field_sets[names] = (count + 1, place)
        early = len(report.first_fields) < HF_SAMPLES
        if early:
            report.first_fields.append(names)
        missing = [] if self._options.fields is None else [name for name in self._options.fields if name not in names]
        for name in missing:
            what = f"the sample has no field {name!r}"
            self._findings.add(Kind.MISSING_FIELD, what, key=sample.key, field=name, offset=sample.offset)
        if Target.HUGGING_FACE in self._options.targets:
            self._note_types(sample, early=early)
        if self._decoding is not None:
            self._decoding.add(sample.key, sample.fields, sample.offsets)

    def _note_types(self, sample: _Sample, *, early: bool) -> None:
        report = self.report
        for name, data in sample.fields.items():
            if name.rpartition(".")[2] in _PICKLES and not self._findings.counts[Kind.HF_PICKLE]:
                self._findings.add(Kind.HF_PICKLE, "Hugging Face does not decode pickles", key=sample.key, field=name)
            for path, kind in value_types(name, data):
                if len(report.types) < _MOST_PATHS or path in report.types:
                    report.types.setdefault(path, {}).setdefault(kind, Place(sample.key, sample.offset))
                    if early:
                        report.first_types.setdefault(path, set()).add(kind)

    def _check_order(self) -> None:
        keys = self.report.keys
        if not self._options.in_order:
            return
        wrong = next((row for row in range(1, len(keys)) if keys[row] < keys[row - 1]), None)
        if wrong is not None:
            what = f"the keys are not sorted: {keys[wrong]!r} comes after {keys[wrong - 1]!r}"
            self._findings.add(Kind.UNSORTED, what, key=keys[wrong], offset=self.report.offsets[wrong])


@dataclass(slots=True)
class _Sample:
    """The sample whose members are being read."""

    key: str
    offset: int
    fields: dict[str, bytes]
    offsets: dict[str, int]
    fresh: bool
