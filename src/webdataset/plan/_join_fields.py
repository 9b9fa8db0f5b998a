"""Fields of other shards, added by key: nothing is rewritten, and any process can look up any sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from webdataset.arguments import require_choice
from webdataset.describe import Described
from webdataset.errors import FormatError, Where
from webdataset.flow import Pass, PerItem, digest
from webdataset.index import Description, IndexedShards
from webdataset.mutex import Mutex
from webdataset.stages import Select

MISSING = ("error", "keep", "drop")
# The entry of a description that lists what is joined to its shards.
JOIN = "join"

Sample = dict[str, Any]


class ByKey:
    """The samples of some shards, by key. A table of 16 bytes for each sample is built at the first lookup.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-join/a.tar", [{"__key__": "0", "txt": "hello"}])
    >>> samples = ByKey(IndexedShards([shard]))
    >>> samples.find("0")["txt"], samples.find("1")
    (b'hello', None)
    """

    def __init__(self, dataset: IndexedShards) -> None:
        self._dataset = dataset
        self._table: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None
        self._lock = Mutex()

    def __repr__(self) -> str:
        urls = self._dataset.urls
        return f"{len(urls)} shard{'s' * (len(urls) != 1)} #{digest(*urls) & 0xFFFFFFFF:08x}"

    def __contains__(self, sample: Sample) -> bool:
        return self._number(sample["__key__"]) is not None

    def find(self, key: str) -> Sample | None:
        """The sample with this key."""
        number = self._number(key)
        found: Sample | None = None if number is None else self._dataset[number]
        return found

    def _number(self, key: str) -> int | None:
        with self._lock:
            hashes, numbers = self._table = self._table or self._built()
        wanted = hash(key)
        for row in range(int(np.searchsorted(hashes, wanted)), len(hashes)):
            if hashes[row] != wanted:
                break
            number = int(numbers[row])
            if self._dataset.where(number).key == key:  # different keys may have the same hash
                return number
        return None

    def _built(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        hashes = np.fromiter(map(hash, self._dataset.keys()), np.int64, count=len(self._dataset))
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order

    def __reduce__(self) -> tuple[type[ByKey], tuple[IndexedShards]]:
        return ByKey, (self._dataset,)  # without the table: hashes of text differ between processes


@dataclass(frozen=True, repr=False)
class JoinFields(Described, PerItem):
    """Add the fields of the sample with the same key in other shards.

    >>> from webdataset.testing import make_shard
    >>> other = make_shard("memory://doc-join/b.tar", [{"__key__": "0", "txt": "hello"}])
    >>> join = JoinFields(ByKey(IndexedShards([other])), keep=True)
    >>> list(join([{"__key__": "0", "cls": b"3"}, {"__key__": "1", "cls": b"4"}]))
    [{'__key__': '0', 'cls': b'3', 'txt': b'hello'}, {'__key__': '1', 'cls': b'4'}]

    It is a function of one sample, so a dataset with it resumes and scales as without it.

    Attributes:
        others: the samples to add from.
        fields: add only these; None adds all.
        keep: keep a sample whose key the other shards do not have; otherwise it is an error.
        replace: replace a field that the sample has already; otherwise it is an error.
    """

    verb: ClassVar[str] = "join"
    others: ByKey
    fields: tuple[str, ...] | None = None
    keep: bool = False
    replace: bool = False

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """Return the function that looks up the key of a sample and adds the fields."""
        return self._joined

    def _joined(self, sample: Sample) -> Sample:
        found = self.others.find(sample["__key__"])
        if found is None:
            if self.keep:
                return sample
            raise FormatError(
                "the key is not in the joined shards",
                Where(key=sample["__key__"], shard=sample.get("__url__")),
                hint="keep such samples as they are (missing=keep), or leave them out (missing=drop)",
            )
        names = [name for name in found if name[:2] != "__" and (self.fields is None or name in self.fields)]
        twice = next((name for name in names if name in sample), None)
        if twice is not None and not self.replace:
            raise FormatError(
                f"the sample and the joined one both have the field {twice!r}",
                Where(key=sample["__key__"], shard=found.get("__url__")),
                hint="join other fields, or replace it",
            )
        return {**sample, **{name: found[name] for name in names}}


def join_stages(
    others: IndexedShards, fields: Sequence[str] | None = None, missing: str = "error", *, replace: bool = False
) -> list[PerItem]:
    """The stages that add the fields of other shards.

    Args:
        others: the shards to add from.
        fields: add only these; None adds all.
        missing: a key that the other shards do not have: "error", "keep" the sample as it is, or "drop" it.
        replace: replace a field that the sample has already.
    """
    require_choice("missing", missing, MISSING)
    samples = ByKey(others)
    join = JoinFields(samples, None if fields is None else tuple(fields), missing == "keep", replace)
    return [Select(samples.__contains__), join] if missing == "drop" else [join]


def described_joins(description: Description, *, copy: bool = True) -> list[PerItem]:
    """Return the stages that add what a description joins to its shards.

    >>> from webdataset.index import read_description
    >>> described_joins(read_description({"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 1}]}))
    []

    Args:
        description: as `read_description` gives it.
        copy: as for `IndexedShards`.
    """
    listed = description.extra.get(JOIN, [])
    try:
        return [
            stage
            for part in listed
            for stage in join_stages(
                IndexedShards(description.further(part["shardlist"]), copy=copy),
                part.get("fields"),
                part.get("missing", "error"),
                replace=part.get("replace") is True,
            )
        ]
    except (TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"{JOIN!r} of the description cannot be read", hint="write it again: wds join") from error
