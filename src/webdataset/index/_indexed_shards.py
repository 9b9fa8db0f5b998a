"""A map-style dataset over indexed shards: length, any sample, any slice, any key, only selected fields."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from copy import copy
from typing import Any, NamedTuple, Self, overload

import numpy as np
from numpy.typing import NDArray

from webdataset.arguments import require_callable
from webdataset.errors import FormatError, SpecError, StaleIndex, Where, located
from webdataset.mutex import Mutex
from webdataset.order import starts_of
from webdataset.redact import hides_secrets, redacted, warn

from ._build_index import build_index
from ._check_index import stale
from ._description import Description
from ._index_location import load_count, load_index
from ._index_while_reading import StoreIndexes
from ._recent_indexes import RecentIndexes
from ._shard_index import Extent, ShardIndex
from ._shard_reader import ShardReader, StoredRun, read_by_shard

# How many readers of shards are kept.
_OPEN_SHARDS = 64
# Indexes that have to be read or built before the length is known come from files and networks.
_WORKERS = 8


@hides_secrets
class SampleLocation(NamedTuple):
    """Where a sample is stored: known without reading it."""

    url: str
    number: int
    key: str | None
    extents: tuple[Extent, ...]


class IndexedShards(Sequence[Any]):
    """The samples of some shards, by number.

    >>> from webdataset import stores, tar
    >>> with stores.open_write("memory://doc-dataset/a.tar") as stream:
    ...     for name in ("a.txt", "a.json", "b.txt", "b.json"):
    ...         _ = stream.write(tar.encode_header(name, 3) + name[:3].encode() + tar.padding(3))
    ...     _ = stream.write(tar.END_OF_ARCHIVE)
    >>> dataset = IndexedShards(["memory://doc-dataset/a.tar"])
    >>> len(dataset), dataset[-1]["txt"], dataset.find("b"), [sample["json"] for sample in dataset[0:2]]
    (2, b'b.t', 1, [b'a.j', b'b.j'])
    >>> dataset.where(1).extents[0]
    Extent(field='txt', offset=2560, size=3)

    Args:
        shards: addresses, or a description that knows how many samples each shard has.
        fields: fetch only these; None fetches all.
        index: a directory or bucket where indexes are kept; None looks next to the shards. A shard without an index is
            read once.
        functions: applied to every sample, one after the other, such as decoders.
        lazy: fetch a field when it is read, not before.
        store_index: store the indexes that had to be built, where they were looked for.
        fetch: makes a local copy of a shard that is not a local file, and returns its path; without it parts of such
            shards are read where they are.
        copy: False makes the fields read-only views of what was read.
    """

    def __init__(
        self,
        shards: Sequence[str] | Description,
        *,
        fields: Sequence[str] | None = None,
        index: str | None = None,
        functions: Sequence[Callable[[Any], Any]] = (),
        lazy: bool = False,
        store_index: bool = False,
        fetch: Callable[[str], str] | None = None,
        copy: bool = True,
    ) -> None:
        if isinstance(shards, str) or not all(map(callable, functions)):
            raise SpecError("IndexedShards takes a list of addresses and functions", hint="expand the spec first")
        self._shards = _Shards(shards, index, store_index=store_index, fetch=fetch, copy=copy)
        self.copy = copy
        self._fields = None if fields is None else tuple(fields)
        self._functions = tuple(functions)
        self._lazy = lazy
        self._numbers = range(self._shards.total)
        if self._fields and self._shards.total:
            self._shards.warn_about_missing(self._fields)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, which: int | str) -> Any: ...
    @overload
    def __getitem__(self, which: slice) -> IndexedShards: ...
    def __getitem__(self, which: int | str | slice) -> Any:
        """One sample by number or key, or a view of several by a slice."""
        if isinstance(which, slice):
            view = copy(self)
            view._numbers = self._numbers[which]
            return view
        number = self.find(which) if isinstance(which, str) else which
        shard, inside = self._locate(number)
        return self._finish(shard, [inside])[0]

    def _locate(self, number: int) -> tuple[int, int]:
        """Return the shard of a sample, and its number in the shard."""
        try:
            stored = self._numbers[number]
        except IndexError:
            raise IndexError(f"there is no sample {number}: the dataset has {len(self):,}") from None
        except TypeError:
            raise TypeError(f"expected the number or key of a sample, or a slice, got {number!r}") from None
        return self._shards.locate(stored)

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        """Return many samples at once, read shard by shard with few requests; torch's loaders call this."""
        return read_by_shard([self._locate(number) for number in numbers], self._finish)

    def check(self, number: int) -> None:
        """Compare the index with the headers of a sample; without keys in it, with those of all samples before too."""
        shard, inside = self._locate(number)
        reader = self._shards.reader(shard)
        reader.samples(range(0 if reader.index.key(inside) is None else inside, inside + 1), ())

    def stored(self, numbers: Sequence[int], most: int) -> StoredRun | None:
        """Samples as they are stored, if they follow each other in one shard, in at most `most` bytes; else None."""
        first = numbers[0]
        as_stored = (self._numbers.step, self._fields, self._functions, self._lazy) == (1, None, (), False)
        if not as_stored or numbers != [*range(first, first + len(numbers))]:
            return None
        shard, inside = self._locate(first)
        index, end = self._shards.index(shard), inside + len(numbers)
        if end > len(index.keys) or index.start(end) - index.start(inside) > most:
            return None
        return self._shards.reader(shard).stored(inside, end)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def map(self, function: Callable[[Any], Any]) -> Self:
        """The same samples after one more function."""
        require_callable("map", function=function)
        mapped = copy(self)
        mapped._functions = (*self._functions, function)
        return mapped

    def column(self, numbers: Sequence[int] | NDArray[np.int64], field: str) -> NDArray[np.uint8]:
        """The bytes of one field of many samples, one a row, without a step per sample; all must be of one size."""
        wanted = np.asarray(numbers, np.int64)
        if len(wanted) == 0 or wanted.min() < 0 or wanted.max() >= len(self):
            raise IndexError(f"expected numbers from 0 to {len(self) - 1}, and at least one")
        stored = self._numbers.start + wanted * self._numbers.step
        starts = self._shards.starts
        shards = np.searchsorted(starts, stored, side="right") - 1
        parts = [(shard, np.flatnonzero(shards == shard)) for shard in np.unique(shards).tolist()]
        rows = [self._shards.reader(shard).column(stored[places] - starts[shard], field) for shard, places in parts]
        if len(parts) == 1:
            return rows[0]
        if len({part.shape[1] for part in rows}) > 1:
            raise FormatError(f"the field {field!r} is of different sizes", hint="read such samples one by one")
        joined = np.empty((len(wanted), rows[0].shape[1]), np.uint8)
        for (_, places), part in zip(parts, rows, strict=True):
            joined[places] = part
        return joined

    def find(self, key: str) -> int:
        """The number of the sample with this key."""
        try:
            return self._numbers.index(self._shards.find(key))
        except (KeyError, ValueError):
            first = next((self._shards.index(shard).key(0) for shard in range(len(self._shards.urls))), None)
            keys = "their index stores no keys" if first is None else f"the first one is {first!r}"
            raise KeyError(
                f"there is no sample {key!r} among these {len(self):,}; {keys}; "
                "dataset.where(number).key tells the key of a sample"
            ) from None

    def __contains__(self, key: object) -> bool:
        """Whether a sample has this key; no sample is read."""
        try:
            return isinstance(key, str) and self._shards.find(key) in self._numbers
        except KeyError:
            return False

    def keys(self) -> Iterator[str]:
        """The keys of all samples of all shards, in order; no sample is read."""
        for shard, url in enumerate(self._shards.urls):
            index = self._shards.index(shard)
            if len(index) and not len(index.keys):
                raise FormatError("the index of this shard has no keys", Where(shard=url), hint="index it again")
            yield from index.keys

    def where(self, number: int) -> SampleLocation:
        """Shard, key and byte ranges of a sample, without reading it."""
        shard, inside = self._locate(number)
        index = self._shards.index(shard)
        return SampleLocation(self._shards.urls[shard], inside, index.key(inside), index.extents(inside))

    @property
    def counts(self) -> list[int]:
        """How many samples each shard has."""
        return list(self._shards.counts)

    @property
    def urls(self) -> list[str]:
        """The shards' addresses."""
        return list(self._shards.urls)

    def offset(self, shard: int, inside: int) -> int:
        """The byte where a sample begins in its shard."""
        return self._shards.index(shard).start(inside) if inside else 0

    def stale(self, shard: int) -> StaleIndex:
        """The error for a shard that does not contain as many samples as expected."""
        return stale(
            f"the shard does not contain {self._shards.counts[shard]} samples, as expected", self._shards.urls[shard]
        )

    def close(self) -> None:
        """Close open shards."""
        self._shards.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"IndexedShards({len(self)} samples in {len(self._shards.urls)} shards, fields={self._fields})"

    def _finish(self, shard: int, numbers: list[int]) -> list[Any]:
        reader = self._shards.reader(shard)
        samples: list[Any]
        if self._lazy:
            samples = [LazySample(reader, number, self._fields) for number in numbers]
        else:
            samples = reader.samples(numbers, self._fields)
        return [self._applied(sample) for sample in samples] if self._functions else samples

    def _applied(self, sample: Any) -> Any:
        for function in self._functions:
            sample = function(sample)
        return sample


class LazySample(Mapping[str, Any]):
    """A sample whose fields are fetched when they are read, once.

    >>> LazySample.__mro__[1].__name__
    'Mapping'
    """

    def __init__(self, reader: ShardReader, number: int, fields: Sequence[str] | None = None) -> None:
        self._reader = reader
        self._number = number
        names = (extent.field.lower() for extent in reader.index.extents(number))
        self._names = tuple(name for name in names if fields is None or name in fields)
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            if name in {"__key__", "__url__", *self._names}:
                self._known |= self._reader.sample(self._number, [name])
            else:
                raise KeyError(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("__key__", "__url__", *self._names))

    def __len__(self) -> int:
        return 2 + len(self._names)


class _Shards:
    """The shards of a dataset and of all views of it: counts, indexes and open readers."""

    def __init__(
        self,
        shards: Sequence[str] | Description,
        location: str | None,
        *,
        store_index: bool,
        fetch: Callable[[str], str] | None,
        copy: bool,
    ) -> None:
        self._location, self._fetch, self._copy = location, fetch, copy
        self._storing = StoreIndexes(location) if store_index else None
        self._indexes = RecentIndexes()
        self._readers: OrderedDict[int, ShardReader] = OrderedDict()
        self._seen: dict[str, Any] = {}  # of all shards, also of those whose readers are gone
        self._lock = Mutex()
        if isinstance(shards, Description):
            self.urls = shards.urls
            self.counts = shards.counts
        else:
            self.urls = list(shards)
            with futures.ThreadPoolExecutor(_WORKERS) as pool:
                self.counts = list(pool.map(self._count, range(len(self.urls))))
        self.starts = starts_of(self.counts)
        self._starts: list[int] = self.starts.tolist()
        self.total = self._starts[-1]
        for shard, count in enumerate(self.counts):
            if not count:
                self.index(shard)  # checks the count: the shard is in no order, so it would never be opened

    def locate(self, number: int) -> tuple[int, int]:
        shard = bisect_right(self._starts, number) - 1
        return shard, number - self._starts[shard]

    def find(self, key: str) -> int:
        for shard in range(len(self.urls)):
            index = self.index(shard)
            try:
                return self._starts[shard] + index.find(key)
            except KeyError:
                continue
            finally:
                self._remember(shard, index)  # which has grown by a table of its keys
        raise KeyError(key)

    def index(self, shard: int) -> ShardIndex:
        index = self._indexes.get(shard)
        if index is None:
            url = self.urls[shard]
            with located(shard=url):
                # An index without samples is built again: it cannot be checked against the shard.
                index = load_index(url, self._location) or self._built(url)
            counts = getattr(self, "counts", None)
            if counts is not None and len(index) != counts[shard]:
                raise stale(f"the description counts {counts[shard]} samples, the index {len(index)}", url)
            self._remember(shard, index)
        return index

    def warn_about_missing(self, fields: Sequence[str]) -> None:
        """A field that no sample of the first shard has is likely to be misspelt."""
        first = next(shard for shard, count in enumerate(self.counts) if count)
        found = {name.lower() for name in self.index(first).fields}
        missing = [name for name in fields if name.lower() not in found and not name.startswith("__")]
        if missing:
            warn(
                f"fields={list(fields)}: no sample of {redacted(self.urls[first])} has {', '.join(missing)}; "
                f"its fields are {', '.join(sorted(found))}",
                stacklevel=4,
            )

    def _remember(self, shard: int, index: ShardIndex) -> None:
        for gone in self._indexes.put(shard, index):
            with self._lock:
                self._readers.pop(gone, None)  # it refers to the index; it is closed with the last reference to it

    def _built(self, url: str) -> ShardIndex:
        index = build_index(url if self._fetch is None else self._fetch(url))
        if self._storing is not None:
            self._storing.store(index, url)
        return index

    def reader(self, shard: int) -> ShardReader:
        with self._lock:
            reader = self._readers.get(shard)
            if reader is not None:
                self._readers.move_to_end(shard)
                return reader
        reader = ShardReader(self.urls[shard], self.index(shard), self._fetch, copy=self._copy, seen=self._seen)
        with self._lock:
            reader = self._readers.setdefault(shard, reader)
            if len(self._readers) > _OPEN_SHARDS:
                # Not closed here: another thread may be reading from it. It is closed with the last reference.
                self._readers.popitem(last=False)
        return reader

    def close(self) -> None:
        with self._lock:
            while self._readers:
                self._readers.popitem()[1].close()
            self._seen.clear()

    def _count(self, shard: int) -> int:
        count = load_count(self.urls[shard], self._location)
        return len(self.index(shard)) if count is None else count

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_readers": OrderedDict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Mutex()
