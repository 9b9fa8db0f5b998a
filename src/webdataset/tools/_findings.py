"""What `check` finds: kinds of faults, how bad each is, which program is affected, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

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


class Kind(StrEnum):
    """Kinds of faults. The values of the first group are those of `tar.DamageKind`."""

    EMPTY_FILE = "empty-file"
    NOT_TAR = "not-tar"
    BAD_CHECKSUM = "bad-checksum"
    BAD_HEADER = "bad-header"
    BAD_EXTENSION = "bad-extension"
    MISALIGNED = "misaligned"
    WIPED_HEADER = "wiped-header"
    SPARSE_MEMBER = "sparse-member"
    CUT_HEADER = "cut-in-header"
    CUT_PAYLOAD = "cut-in-payload"
    CUT_PADDING = "cut-in-padding"
    NO_END = "no-end-mark"
    HALF_END = "half-end-mark"
    GARBAGE = "garbage-after-end"
    CONCATENATED = "concatenated-archives"
    CUT_COMPRESSION = "cut-compression"
    BAD_COMPRESSION = "bad-compression"

    MISSING_SHARD = "missing-shard"
    UNREADABLE_SHARD = "unreadable-shard"
    NO_SAMPLES = "no-samples"

    SYMBOLIC_LINK = "symbolic-link"
    HARD_LINK = "hard-link"
    DEVICE = "device"
    CONTINUED = "continued-file"
    UNKNOWN_TYPE = "unknown-type"

    NO_EXTENSION = "no-extension"
    EMPTY_EXTENSION = "empty-extension"
    HIDDEN = "hidden-file"
    RESERVED = "reserved-name"
    UPPER_CASE = "upper-case-field"
    NOT_UTF8 = "name-not-utf-8"
    CONTROL = "control-character"
    ABSOLUTE = "absolute-name"
    PARENT = "parent-folder-name"
    TOO_LONG = "name-too-long"
    FILE_AND_FOLDER = "file-and-folder"
    WINDOWS_NAME = "windows-name"
    CASE_COLLISION = "case-collision"
    NAME_WITH_SPACE = "name-with-space"
    LONG_GNU_NAME = "long-gnu-name"
    HF_HIDDEN = "hf-hidden-file"

    DUPLICATE_FIELD = "duplicate-field"
    SPLIT_SAMPLE = "split-sample"
    UNSORTED = "unsorted-keys"
    MISSING_FIELD = "missing-field"
    UNUSUAL_FIELDS = "unusual-fields"
    DUPLICATE_KEY = "duplicate-key"

    UNDECODABLE = "undecodable-field"
    UNSAFE = "unsafe-field"
    WRONG_EXTENSION = "wrong-extension"
    NOT_CHECKED = "not-checked"

    BAD_INDEX = "bad-index"
    STALE_INDEX = "stale-index"
    WRONG_SIZE = "wrong-size"
    WRONG_MD5 = "wrong-md5"
    WRONG_COUNT = "wrong-count"
    LISTED_TWICE = "listed-twice"

    HF_FIELDS = "hf-fields-differ"
    HF_EXTRA_FIELD = "hf-field-dropped"
    HF_TYPE = "hf-type-changes"
    HF_PICKLE = "hf-pickle"
    DALI_COMPRESSED = "dali-compressed"


@dataclass(frozen=True, slots=True)
class Rule:
    """What is known about a kind: how bad it is, what to do, and who is affected if not every reader."""

    severity: Severity
    remedy: str
    target: Target | None = None


_FETCH = "copy the shard again from its source, or save what is left with `wds check --fix`"
_FIX = "write the shard again with `wds check --fix`"
_REINDEX = "write the index again with `wds index create`"
_DESCRIBE = "copy the shard again, or describe the dataset again with `wds index create`"
_LOST = (
    "write the archive again with `tar --dereference --hard-dereference`; "
    "`wds check --fix` copies links that lead to another member"
)

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_HF, _DALI, _GNU, _WINDOWS = Target

RULES: dict[Kind, Rule] = {
    Kind.EMPTY_FILE: Rule(_E, "copy the shard again from its source"),
    Kind.NOT_TAR: Rule(_E, "check the address: a login or error page in place of a shard is a common cause"),
    Kind.BAD_CHECKSUM: Rule(_E, _FETCH),
    Kind.BAD_HEADER: Rule(_E, _FETCH),
    Kind.BAD_EXTENSION: Rule(_E, _FETCH),
    Kind.MISALIGNED: Rule(_E, _FETCH),
    Kind.WIPED_HEADER: Rule(_E, _FETCH),
    Kind.SPARSE_MEMBER: Rule(_E, "write the archive again without `tar --sparse`"),
    Kind.CUT_HEADER: Rule(_E, _FETCH),
    Kind.CUT_PAYLOAD: Rule(_E, _FETCH),
    Kind.CUT_PADDING: Rule(_E, _FETCH),
    Kind.NO_END: Rule(_E, _FETCH),
    Kind.HALF_END: Rule(_E, _FIX),
    Kind.GARBAGE: Rule(_E, _FIX),
    Kind.CONCATENATED: Rule(_W, "write one archive with `wds cat` or `wds check --fix`"),
    Kind.CUT_COMPRESSION: Rule(_E, _FETCH),
    Kind.BAD_COMPRESSION: Rule(_E, _FETCH),
    Kind.MISSING_SHARD: Rule(_E, "copy the shard there, or take it out of the list"),
    Kind.UNREADABLE_SHARD: Rule(_E, "check the address, the credentials and the network; `wds doctor` helps"),
    Kind.NO_SAMPLES: Rule(_W, "leave the shard out"),
    Kind.SYMBOLIC_LINK: Rule(_E, _LOST),
    Kind.HARD_LINK: Rule(_E, _LOST),
    Kind.DEVICE: Rule(_W, _FIX),
    Kind.CONTINUED: Rule(_E, "write the archive again without `tar --multi-volume`"),
    Kind.UNKNOWN_TYPE: Rule(_W, _FIX),
    Kind.NO_EXTENSION: Rule(_W, "rename it to KEY.FIELD, or leave it out with `wds check --fix`"),
    Kind.EMPTY_EXTENSION: Rule(_E, "rename it to KEY.FIELD, or leave it out with `wds check --fix`"),
    Kind.HIDDEN: Rule(_W, "leave it out with `wds check --fix`; on macOS write with `COPYFILE_DISABLE=1 tar`"),
    Kind.RESERVED: Rule(_N, "readers skip `__…__` names; give it another name if it is a sample"),
    Kind.UPPER_CASE: Rule(_W, "write field names in lower case: `wds check --fix`"),
    Kind.NOT_UTF8: Rule(_W, _FIX),
    Kind.CONTROL: Rule(_W, _FIX),
    Kind.ABSOLUTE: Rule(_W, _FIX),
    Kind.PARENT: Rule(_W, _FIX),
    Kind.TOO_LONG: Rule(_W, "shorten the key", _GNU),
    Kind.FILE_AND_FOLDER: Rule(_W, "rename one of the two", _GNU),
    Kind.WINDOWS_NAME: Rule(_W, "rename it if the archive is to be extracted on Windows", _WINDOWS),
    Kind.CASE_COLLISION: Rule(_W, "rename one of the two if the archive is to be extracted on Windows", _WINDOWS),
    Kind.NAME_WITH_SPACE: Rule(_W, "rename it, or give DALI the index of `wds index create`", _DALI),
    Kind.LONG_GNU_NAME: Rule(_W, "index the shard with `wds index create` and not with `wds2idx`", _DALI),
    Kind.HF_HIDDEN: Rule(_W, "let the file name begin differently", _HF),
    Kind.DUPLICATE_FIELD: Rule(_E, "keep the first with `wds check --fix`"),
    Kind.SPLIT_SAMPLE: Rule(_E, "put the members of each sample together with `wds check --fix`"),
    Kind.UNSORTED: Rule(_W, "sort the shard with `wds sort` or `wds check --sorted --fix`"),
    Kind.MISSING_FIELD: Rule(_E, "add the field with `wds join`, or leave the sample out with `wds select`"),
    Kind.UNUSUAL_FIELDS: Rule(_W, "name the fields that every sample must have with --fields"),
    Kind.DUPLICATE_KEY: Rule(_W, "give each shard keys of its own with `wds rename`, or drop one of the shards"),
    Kind.UNDECODABLE: Rule(_E, "make the field again, or put the sample aside with `wds check --fix`"),
    Kind.UNSAFE: Rule(_E, "store the field as json, npy or safetensors; it would run code out of the data"),
    Kind.WRONG_EXTENSION: Rule(_N, "name the field after its format"),
    Kind.NOT_CHECKED: Rule(_N, "install the package and check again"),
    Kind.BAD_INDEX: Rule(_E, _REINDEX),
    Kind.STALE_INDEX: Rule(_E, _REINDEX),
    Kind.WRONG_SIZE: Rule(_E, _DESCRIBE),
    Kind.WRONG_MD5: Rule(_E, _DESCRIBE),
    Kind.WRONG_COUNT: Rule(_E, _DESCRIBE),
    Kind.LISTED_TWICE: Rule(_W, "list every shard once, or its samples come twice"),
    Kind.HF_FIELDS: Rule(_W, "give all samples the same fields, or pass features= to load_dataset", _HF),
    Kind.HF_EXTRA_FIELD: Rule(_W, "give the first five samples all fields, or pass features= to load_dataset", _HF),
    Kind.HF_TYPE: Rule(_W, "store the same type in every sample, or pass features= to load_dataset", _HF),
    Kind.HF_PICKLE: Rule(_W, "store the field as json, npy or cbor", _HF),
    Kind.DALI_COMPRESSED: Rule(_W, "DALI reads plain tar only: write it again with `wds cat -o NAME.tar`", _DALI),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: what, how bad, where, and what to do.

    >>> print(Finding(Kind.NO_END, "the archive ends without an end-of-archive mark", "a.tar", offset=4096))
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

    def __post_init__(self) -> None:
        rule = RULES[self.kind]
        if not self.remedy:
            object.__setattr__(self, "remedy", rule.remedy)
            object.__setattr__(self, "severity", rule.severity)

    def __str__(self) -> str:
        where = [
            f"sample {self.key}" if self.key else "",
            f"member {self.member}" if self.member and self.key is None else "",
            f"field {self.field}" if self.field else "",
            self.shard or "",
            f"byte {self.offset}" if self.offset is not None else "",
        ]
        return f"{self.severity} {self.kind}: {self.what} – {', '.join(filter(None, where))}".rstrip(" –")

    def seen_by(self, targets: Iterable[Target]) -> Finding:
        """The finding as it matters to these programs: what only others trip over is a note."""
        target = RULES[self.kind].target
        if target is None or target in targets:
            return self
        return replace(self, severity=Severity.NOTE)


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
        """One more finding, or `times` of the same kind of which this is the first."""
        self.counts[kind] += times
        if self.counts[kind] - times < MOST_OF_A_KIND:
            found = Finding(kind, what, shard or self.shard, offset, key, member, field)
            self.listed.append(found.seen_by(self.targets))
