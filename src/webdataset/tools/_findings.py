"""Findings of `check`: kinds of faults, how bad each is, which program is affected, and what to do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from webdataset.redact import hides_secrets, redacted

# So many findings of a kind are kept for each shard; the others are counted.
MOST_OF_A_KIND = 100


class Severity(StrEnum):
    """How bad a finding is. Errors and warnings make `wds check` fail, notes do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Target(StrEnum):
    """A program that reads shards too, with rules of its own."""

    HUGGING_FACE = "hf"
    DALI = "dali"
    GNU_TAR = "gnu"
    WINDOWS = "windows"


_FETCH = "copy the shard again from its source, or save what is left with `wds check --fix`"
_FIX = "write the shard again with `wds check --fix`"
_REINDEX = "write the index again with `wds index create`"
_DESCRIBE = "copy the shard again, or describe the dataset again with `wds index create`"
_LOST = (
    "write the archive again with `tar --dereference --hard-dereference`; "
    "`wds check --fix` copies links that lead to another member"
)
_ON_WINDOWS = "if the archive is to be extracted on Windows"
_FEATURES = "or pass features= to load_dataset"
_PLAIN_TAR = "DALI reads plain tar only: write it again with `wds cat -o NAME.tar`"

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_HF, _DALI, _GNU, _WINDOWS = Target


class Kind(StrEnum):
    """Kinds of faults. The values of the first group are those of `tar.DamageKind`.

    Each kind has a severity, a remedy, and the program that it concerns if it concerns one alone.
    """

    severity: Severity
    remedy: str
    target: Target | None

    def __new__(cls, value: str, severity: Severity, remedy: str, target: Target | None = None) -> Self:
        """A member of the table below."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.severity, kind.remedy, kind.target = severity, remedy, target
        return kind

    EMPTY_FILE = "empty-file", _E, "copy the shard again from its source"
    NOT_TAR = "not-tar", _E, "check the address: a login or error page in place of a shard is a common cause"
    BAD_CHECKSUM = "bad-checksum", _E, _FETCH
    BAD_HEADER = "bad-header", _E, _FETCH
    BAD_EXTENSION = "bad-extension", _E, _FETCH
    MISALIGNED = "misaligned", _E, _FETCH
    WIPED_HEADER = "wiped-header", _E, _FETCH
    SPARSE_MEMBER = "sparse-member", _E, "write the archive again without `tar --sparse`"
    CUT_HEADER = "cut-in-header", _E, _FETCH
    CUT_PAYLOAD = "cut-in-payload", _E, _FETCH
    CUT_PADDING = "cut-in-padding", _E, _FETCH
    NO_END = "no-end-mark", _E, _FETCH
    HALF_END = "half-end-mark", _E, _FIX
    GARBAGE = "garbage-after-end", _E, _FIX
    CONCATENATED = "concatenated-archives", _W, "write one archive with `wds cat` or `wds check --fix`"
    CUT_COMPRESSION = "cut-compression", _E, _FETCH
    BAD_COMPRESSION = "bad-compression", _E, _FETCH

    MISSING_SHARD = "missing-shard", _E, "copy the shard there, or take it out of the list"
    UNREADABLE_SHARD = "unreadable-shard", _E, "check the address, the credentials and the network; `wds doctor` helps"
    NO_SAMPLES = "no-samples", _W, "leave the shard out"

    SYMBOLIC_LINK = "symbolic-link", _E, _LOST
    HARD_LINK = "hard-link", _E, _LOST
    DEVICE = "device", _W, _FIX
    CONTINUED = "continued-file", _E, "write the archive again without `tar --multi-volume`"
    UNKNOWN_TYPE = "unknown-type", _W, _FIX

    NO_EXTENSION = "no-extension", _W, "rename it to KEY.FIELD, or leave it out with `wds check --fix`"
    EMPTY_EXTENSION = "empty-extension", _E, "rename it to KEY.FIELD, or leave it out with `wds check --fix`"
    HIDDEN = "hidden-file", _W, "leave it out with `wds check --fix`; on macOS write with `COPYFILE_DISABLE=1 tar`"
    RESERVED = "reserved-name", _N, "readers skip `__…__` names; give it another name if it is a sample"
    UPPER_CASE = "upper-case-field", _W, "write field names in lower case: `wds check --fix`"
    NOT_UTF8 = "name-not-utf-8", _W, _FIX
    CONTROL = "control-character", _W, _FIX
    ABSOLUTE = "absolute-name", _W, _FIX
    PARENT = "parent-folder-name", _W, _FIX
    TOO_LONG = "name-too-long", _W, "shorten the key", _GNU
    FILE_AND_FOLDER = "file-and-folder", _W, "rename one of the two", _GNU
    WINDOWS_NAME = "windows-name", _W, f"rename it {_ON_WINDOWS}", _WINDOWS
    CASE_COLLISION = "case-collision", _W, f"rename one of the two {_ON_WINDOWS}", _WINDOWS
    NAME_WITH_SPACE = "name-with-space", _W, "rename it, or give DALI the index of `wds index create`", _DALI
    LONG_GNU_NAME = "long-gnu-name", _W, "index the shard with `wds index create` and not with `wds2idx`", _DALI
    HF_HIDDEN = "hf-hidden-file", _W, "let the file name begin differently", _HF

    DUPLICATE_FIELD = "duplicate-field", _E, "keep the first with `wds check --fix`"
    SPLIT_SAMPLE = "split-sample", _E, "put the members of each sample together with `wds check --fix`"
    UNSORTED = "unsorted-keys", _W, "sort the shard with `wds sort` or `wds check --sorted --fix`"
    MISSING_FIELD = "missing-field", _E, "add the field with `wds join`, or leave the sample out with `wds select`"
    UNUSUAL_FIELDS = "unusual-fields", _W, "name the fields that every sample must have with --fields"
    DUPLICATE_KEY = "duplicate-key", _W, "give each shard keys of its own with `wds rename`, or drop one of the shards"

    UNDECODABLE = "undecodable-field", _E, "make the field again, or put the sample aside with `wds check --fix`"
    UNSAFE = "unsafe-field", _E, "store the field as json, npy or safetensors; it would run code out of the data"
    WRONG_EXTENSION = "wrong-extension", _N, "name the field after its format"
    NOT_CHECKED = "not-checked", _N, "install the package and check again"

    BAD_INDEX = "bad-index", _E, _REINDEX
    STALE_INDEX = "stale-index", _E, _REINDEX
    WRONG_SIZE = "wrong-size", _E, _DESCRIBE
    WRONG_MD5 = "wrong-md5", _E, _DESCRIBE
    WRONG_COUNT = "wrong-count", _E, _DESCRIBE
    LISTED_TWICE = "listed-twice", _W, "list every shard once, or its samples come twice"

    HF_FIELDS = "hf-fields-differ", _W, f"give all samples the same fields, {_FEATURES}", _HF
    HF_EXTRA_FIELD = "hf-field-dropped", _W, f"give the first five samples all fields, {_FEATURES}", _HF
    HF_TYPE = "hf-type-changes", _W, f"store the same type in every sample, {_FEATURES}", _HF
    HF_PICKLE = "hf-pickle", _W, "store the field as json, npy or cbor", _HF
    DALI_COMPRESSED = "dali-compressed", _W, _PLAIN_TAR, _DALI


@hides_secrets
@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: what, how bad, where, and what to do.

    >>> found = Findings("a.tar")
    >>> found.add(Kind.NO_END, "the archive ends without an end-of-archive mark", offset=4096)
    >>> print(found.listed[0])
    error no-end-mark: the archive ends without an end-of-archive mark – a.tar, byte 4096

    Attributes:
        kind: what kind of fault.
        what: the fault in words.
        shard: the shard's address; None if the fault is one of the whole dataset.
        offset: the byte in the shard (unpacked, if it is compressed).
        key: the sample.
        member: the name in the archive.
        field: the field.
        severity: how bad it is.
        remedy: what to do.
    """

    kind: Kind
    what: str
    shard: str | None = None
    offset: int | None = None
    key: str | None = None
    member: str | None = None
    field: str | None = None
    severity: Severity = Severity.NOTE
    remedy: str = ""

    def __str__(self) -> str:
        where = [
            f"sample {self.key}" if self.key else "",
            f"member {self.member}" if self.member and self.key is None else "",
            f"field {self.field}" if self.field else "",
            redacted(self.shard or ""),
            f"byte {self.offset}" if self.offset is not None else "",
        ]
        return f"{self.severity} {self.kind}: {self.what} – {', '.join(filter(None, where))}".rstrip(" –")


@dataclass(slots=True)
class Findings:
    """Findings of one shard or dataset: the first of each kind, and the number of all.

    >>> found = Findings("a.tar")
    >>> found.add(Kind.NO_END, "the archive ends without an end-of-archive mark", offset=4096)
    >>> found.counts
    Counter({<Kind.NO_END: 'no-end-mark'>: 1})
    """

    shard: str | None = None
    targets: frozenset[Target] = frozenset()
    listed: list[Finding] = field(default_factory=list)
    counts: Counter[Kind] = field(default_factory=Counter)

    def add(
        self,
        kind: Kind,
        what: str,
        *,
        offset: int | None = None,
        key: str | None = None,
        member: str | None = None,
        field: str | None = None,
        shard: str | None = None,
        times: int = 1,
    ) -> None:
        """Add a finding; with `times` it stands for so many of the same kind."""
        self.counts[kind] += times
        if self.counts[kind] - times < MOST_OF_A_KIND:
            concerned = kind.target is None or kind.target in self.targets
            severity = kind.severity if concerned else Severity.NOTE  # a problem for other programs only
            found = Finding(kind, what, shard or self.shard, offset, key, member, field, severity, kind.remedy)
            self.listed.append(found)
