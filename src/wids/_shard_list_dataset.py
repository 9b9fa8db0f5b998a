"""`ShardListDataset`: the samples of described shards by number, as dicts with dotted fields."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from os import PathLike, fspath
from typing import Any, Self

from webdataset import config, shards
from webdataset.arguments import require_count
from webdataset.cache import ShardCache
from webdataset.errors import StaleIndex, Where
from webdataset.index import (
    Description,
    RecentIndexes,
    ShardEntry,
    ShardIndex,
    ShardReader,
    build_index,
    load_index,
    read_by_shard,
    read_description,
)
from webdataset.mutex import Mutex
from webdataset.redact import warn
from webdataset.stores import Closing

from ._indexed_tar import IndexedTarSamples, LRUShards
from ._shard_location import ShardLocations
from ._transforms import Sample, Transformation, find_transformations

# With more open shards a process may run out of memory mappings: 65,530 on Linux, other uses included.
_MANY_SHARDS = 200
# After this many accesses, a warning is given if more than this share of them were misses.
_MISS_RATE, _ENOUGH_ACCESSES = 0.3, 100


class ShardListDataset(Closing):
    """The samples of described shards, by number.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://wids/b.tar", [{"__key__": "x", "cls": 7}])
    >>> dataset = ShardListDataset([{"url": shard, "nsamples": 1}])
    >>> dataset[0]
    {'__key__': 'x', '__dataset__': None, '__index__': 0, '__shard__': 'memory://wids/b.tar', '__shardindex__': 0,
     '.cls': 7}
    >>> dataset.add_transform(lambda sample: sample[".cls"])[-1]
    7

    A local shard is mapped into memory. From other stores, the bytes of the requested samples are fetched by ranges;
    with `cache_dir`, `WIDS_CACHE` or `localname` the whole shard is fetched once, checked, and mapped.

    Args:
        shards: the address of a description, an open file with one, its content, its list of shards, or anything
            else that names shards (`"data/*.tar"`), which are then counted.
        cache_size: limit of the cache in bytes.
        cache_dir: keep whole shards here.
        lru_size: how many shards stay open.
        dataset_name: `__dataset__` of samples whose shard names none.
        localname: address → path of the local copy, instead of a cache.
        transformations: "PIL" or "numpy" decode everything, pictures to that; or a function of a sample, or several.
        keep: never delete from the cache.
        base: what relative addresses are relative to; by default the description's place.
        options: kept, not used.
    """

    def __init__(
        self,
        shards: Any,
        *,
        cache_size: float = 1e12,
        cache_dir: str | PathLike[str] | None = None,
        lru_size: int = 10,
        dataset_name: str | None = None,
        localname: Callable[[str], str] | None = None,
        transformations: Any = "PIL",
        keep: bool = False,
        base: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        lru_size = require_count("ShardListDataset", "lru_size", lru_size, least=1)
        if lru_size > _MANY_SHARDS:
            warn(f"lru_size={lru_size} keeps very many shards open", stacklevel=2)
        description = find_description(shards, base)
        self.shards: list[ShardEntry] = list(description.shards)
        self.dataset_name = dataset_name or description.name
        self.transformations: list[Transformation] = find_transformations(transformations)
        self.options = dict(options or {})
        self.lengths = description.counts
        self.cum_lengths = [0, *accumulate(self.lengths)]
        self.lru_size = lru_size
        self._locations = ShardLocations(_cache(cache_dir, -1 if keep else cache_size), localname)
        self._indexes = RecentIndexes()
        self._whole: LRUShards | None = None
        self._forget_open()

    def __len__(self) -> int:
        return self.cum_lengths[-1]

    def __getitem__(self, index: int) -> Any:
        """One sample, transformed."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indexes: Sequence[int]) -> list[Any]:
        """Many samples, shard by shard, with few requests; torch's loaders call this."""
        return read_by_shard([self._locate(index) for index in indexes], self._read)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def add_transform(self, transform: Transformation) -> Self:
        """Apply one more function to every sample from now on."""
        self.transformations += find_transformations(transform)
        return self

    def get_stats(self) -> tuple[int, int]:
        """(accesses, misses): how often a sample was requested, and how often its shard was not open."""
        return self._accesses, self._misses

    @property
    def total_length(self) -> int:
        """How many samples there are."""
        return len(self)

    @property
    def cache(self) -> LRUShards:
        """Whole shards on the local disk, for programs that need their paths."""
        if self._whole is None:
            self._whole = LRUShards(self.lru_size, localname=self._locations.localname)
        return self._whole

    def get_shard(self, index: int) -> tuple[IndexedTarSamples, int, ShardEntry]:
        """The shard of a sample (with its `path`), the sample's number in it, and the shard's description."""
        shard, inside = self._locate(index)
        entry = self.shards[shard]
        return self.cache.get_shard(entry.url), inside, entry

    def close(self) -> None:
        """Close all open shards."""
        if self._whole is not None:
            self._whole.clear()
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
            self._seen.clear()

    def __repr__(self) -> str:
        name = f"{self.dataset_name}: " if self.dataset_name else ""
        return f"<ShardListDataset {name}{len(self)} samples in {len(self.shards)} shards>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None, "_lock": None, "_whole": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_open()

    def _forget_open(self) -> None:
        self._open: OrderedDict[int, ShardReader] = OrderedDict()
        self._seen: dict[str, Any] = {}  # of all shards, also of those that were let go of
        self._lock = Mutex()
        self._accesses = self._misses = 0
        self._begun: set[int] = set()

    def _locate(self, index: int) -> tuple[int, int]:
        """The shard of a sample, and the sample's number in it."""
        number = range(len(self))[index]
        shard = bisect_right(self.cum_lengths, number) - 1
        return shard, number - self.cum_lengths[shard]

    def _read(self, shard: int, numbers: list[int]) -> list[Any]:
        samples = self._reader(shard, len(numbers)).samples(numbers)
        dotted = (self._dotted(sample, shard, inside) for sample, inside in zip(samples, numbers, strict=True))
        return [self._transformed(sample) for sample in dotted]

    def _reader(self, shard: int, accesses: int) -> ShardReader:
        with self._lock:
            self._accesses += accesses
            reader = self._open.get(shard)
            if reader is None:
                self._misses += 1
                self._begun.add(shard)
                self._warn_about_misses()
                address = self._locations.find(self.shards[shard])
                reader = self._open[shard] = ShardReader(
                    address, self._index(shard, address), seen=self._seen if address == self.shards[shard].url else None
                )
                if len(self._open) > self.lru_size:
                    self._open.popitem(last=False)  # not closed: another thread may be reading from it
            self._open.move_to_end(shard)
            return reader

    def _index(self, shard: int, address: str) -> ShardIndex:
        index = self._indexes.get(shard)
        if index is None:
            entry = self.shards[shard]
            index = load_index(address) or build_index(address)
            if len(index) != entry.nsamples:
                raise StaleIndex(
                    f"the description counts {entry.nsamples} samples, the shard has {len(index)}",
                    Where(shard=entry.url),
                    hint="describe the dataset again with widsindex",
                )
            for gone in self._indexes.put(shard, index):
                self._open.pop(gone, None)  # it holds the index; the lock is held
        return index

    def _warn_about_misses(self) -> None:
        again = self._misses - len(self._begun)  # every shard has to be opened once
        if self._accesses >= _ENOUGH_ACCESSES and again > _MISS_RATE * self._accesses and not self._warned:
            self._warned = True
            warn(
                f"{again} of {self._accesses} accesses opened a shard again; use a sampler that stays inside shards"
                f" (ShardListSampler, ChunkedSampler) or a larger lru_size than {self.lru_size}",
                stacklevel=7,
            )

    _warned = False

    def _dotted(self, sample: Sample, shard: int, inside: int) -> Sample:
        entry = self.shards[shard]
        fields = {f".{name}": io.BytesIO(data) for name, data in sample.items() if not name.startswith("__")}
        return {
            "__key__": sample["__key__"],
            "__dataset__": entry.dataset or self.dataset_name,
            "__index__": self.cum_lengths[shard] + inside,
            "__shard__": entry.url,
            "__shardindex__": inside,
            **fields,
        }

    def _transformed(self, sample: Any) -> Any:
        for transform in self.transformations:
            sample = transform(sample)
        return sample


def find_description(source: Any, base: str | None = None) -> Description:
    """The description from any form that a user may give.

    >>> find_description([{"url": "a.tar", "nsamples": 2}], base="s3://b").urls
    ['s3://b/a.tar']
    """
    if isinstance(source, Description):
        return source
    is_named = isinstance(source, str | PathLike) and _is_json(fspath(source))
    if is_named or isinstance(source, Mapping) or hasattr(source, "read"):
        return read_description(source, base)
    if isinstance(source, Sequence) and source and all(isinstance(entry, Mapping) for entry in source):
        return read_description({"wids_version": 1, "shardlist": list(source)}, base)
    return Description([ShardEntry(url, len(load_index(url) or build_index(url))) for url in shards.expand(source)])


def _is_json(url: str) -> bool:
    return url.partition("?")[0].endswith(".json")


def _cache(directory: str | PathLike[str] | None, size: float) -> ShardCache | None:
    folder = directory if directory is not None else config.read("WIDS_CACHE")
    return None if folder is None else ShardCache(fspath(folder), int(size))
