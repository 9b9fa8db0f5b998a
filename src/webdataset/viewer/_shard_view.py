"""The samples of one shard: by its index, or the first ones of a stream if there is no random access."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from webdataset.errors import ShardNotFound, Where
from webdataset.index import ReadsRanges, ShardIndex, ShardReader, open_bytes
from webdataset.mutex import Mutex
from webdataset.samples import OWN_FIELDS, read_shard

# Of a shard without random access so many samples are kept, and so many bytes.
_MOST_SAMPLES = 200
_MOST_BYTES = 64_000_000


class Member(NamedTuple):
    """One field of a sample: its size, and where its data begin in the shard (None in a stream)."""

    field: str
    size: int
    offset: int | None


class IndexedShard:
    """A shard with an index."""

    def __init__(self, url: str, index: ShardIndex) -> None:
        self.url = url
        self.index = index
        self._reader = ShardReader(url, index)
        self._bytes: Any = None
        self._lock = Mutex()

    def __len__(self) -> int:
        return len(self.index)

    @property
    def keys(self) -> Sequence[str]:
        """The keys of all samples, if the index stores them."""
        return self.index.keys

    def key(self, number: int) -> str:
        """The key of a sample; its number if the index stores no keys."""
        key = self.index.key(number)
        return str(number) if key is None else key

    def members(self, number: int) -> tuple[Member, ...]:
        """The fields of a sample."""
        return tuple(
            Member(extent.field.lower(), extent.size, extent.offset)
            for extent in self.index.extents(number)
            if extent.field.lower() not in OWN_FIELDS
        )

    def samples(self, numbers: Sequence[int], fields: Sequence[str]) -> list[dict[str, Any]]:
        """Samples with the bytes of these fields; their headers are compared with the index."""
        return self._reader.samples(list(numbers), fields)

    def opened(self, number: int, member: Member) -> tuple[ReadsRanges, int]:
        """(reader, offset) of the bytes of a field. The headers of the sample are compared with the index first."""
        smallest = min(self.members(number), key=lambda each: each.size)
        self._reader.samples([number], [smallest.field] if smallest.size < 65536 else [])
        with self._lock:
            if self._bytes is None:
                self._bytes = open_bytes(self.url)
        assert member.offset is not None
        return self._bytes, member.offset

    def close(self) -> None:
        """Close the shard."""
        self._reader.close()
        with self._lock:
            if self._bytes is not None:
                self._bytes.close()
                self._bytes = None


@dataclass(frozen=True)
class _Held:
    """Bytes in memory."""

    data: bytes

    def read(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]


class StreamedShard:
    """The first samples of a shard that was read as a stream.

    Attributes:
        complete: whether these are all samples of the shard.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.complete = True
        self._samples: list[dict[str, Any]] = []
        total = 0
        with closing(read_shard(url)) as stream:  # type: ignore[type-var]  # a generator
            for sample in stream:
                total += sum(len(value) for value in sample.values() if isinstance(value, bytes))
                if self._samples and (len(self._samples) >= _MOST_SAMPLES or total > _MOST_BYTES):
                    self.complete = False
                    break
                self._samples.append(sample)

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def keys(self) -> Sequence[str]:
        """The keys of all samples."""
        return [sample["__key__"] for sample in self._samples]

    def key(self, number: int) -> str:
        """The key of a sample."""
        return str(self._samples[number]["__key__"])

    def members(self, number: int) -> tuple[Member, ...]:
        """The fields of a sample."""
        sample = self._samples[number]
        return tuple(Member(name, len(data), None) for name, data in sample.items() if name not in OWN_FIELDS)

    def samples(self, numbers: Sequence[int], fields: Sequence[str]) -> list[dict[str, Any]]:
        """Samples with the bytes of these fields."""
        wanted = OWN_FIELDS.union(fields)
        chosen = (self._samples[number].items() for number in numbers)
        return [{name: data for name, data in items if name in wanted} for items in chosen]

    def opened(self, number: int, member: Member) -> tuple[ReadsRanges, int]:
        """(reader, offset) of the bytes of a field."""
        return _Held(self._samples[number][member.field]), 0

    def close(self) -> None:
        """Do nothing: nothing is open."""


ShardView = IndexedShard | StreamedShard


def member_named(view: ShardView, number: int, field: str) -> Member:
    """One field of a sample."""
    for member in view.members(number):
        if member.field == field:
            return member
    raise ShardNotFound(
        f"the sample has no field {field!r}",
        Where(shard=view.url, key=view.key(number)),
        hint=f"its fields are {' '.join(member.field for member in view.members(number))}",
    )
