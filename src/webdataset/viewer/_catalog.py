"""All samples of a dataset by number. Without an index the shards are counted in the background."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from webdataset import stores
from webdataset.decompress import is_packed
from webdataset.errors import EncodingError, ShardNotFound, SpecError, WebDatasetError, Where, located
from webdataset.index import (
    ShardIndex,
    build_index,
    load_count,
    load_index,
    read_description,
    save_index,
)
from webdataset.mutex import Mutex
from webdataset.shards import expand

from ._shard_view import IndexedShard, ShardView, StreamedShard

_THREADS = 4
_CHECK_EVERY = 0.1
_OPEN_SHARDS = 32


class Problem(NamedTuple):
    """A shard that cannot be shown, or only in part."""

    shard: str
    what: str
    remedy: str


class Found(NamedTuple):
    """A sample: the shard that holds it, and its number there."""

    number: int
    shard: int
    inside: int
    view: ShardView


class ClosedError(Exception):
    """The catalog was closed while a shard was read."""


class Catalog(stores.Closing):
    """The samples of some shards, by number; their number grows while shards are counted.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-catalog/a.tar", [{"__key__": f"{n}", "txt": "hello"} for n in range(3)])
    >>> with Catalog(shard) as catalog:
    ...     catalog.wait()
    ...     len(catalog), catalog.find("2"), catalog.at(1).view.key(1)
    (3, 2, '1')

    Args:
        inputs: shards in any form, or a description, which has the number of samples of each shard.
        index: where indexes are kept; None looks next to the shards. Nothing is written there: indexes that had to be
            built are kept in a temporary folder.
    """

    def __init__(self, inputs: str | Sequence[str], index: str | None = None) -> None:
        given = [inputs] if isinstance(inputs, str) else list(inputs)
        self._place = index
        self._lock = Mutex()
        self._closed = threading.Event()
        self._views: OrderedDict[int, ShardView] = OrderedDict()
        self._streamed: dict[int, StreamedShard] = {}
        self._unsaved: dict[str, ShardIndex] = {}
        self.problems: dict[int, Problem] = {}
        if len(given) == 1 and given[0].endswith(".json"):
            description = read_description(given[0])
            self.urls, self._counts = description.urls, list[int | None](description.counts)
        else:
            self.urls = [url for spec in given for url in _expanded(spec)]
            self._counts = [None] * len(self.urls)
        self._learned = stores.TemporaryFolder()
        self._todo = iter([shard for shard, count in enumerate(self._counts) if count is None])
        self._count_starts()
        self._threads = [
            threading.Thread(target=self._count_shards, name=f"wds-view-count-{number}", daemon=True)
            for number in range(min(_THREADS, self._counts.count(None)))
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """The number of samples in the first shards, up to the first one that is not counted yet."""
        return self._starts[-1]

    @property
    def complete(self) -> bool:
        """Whether all shards are counted."""
        return self.shards_counted == len(self.urls)

    @property
    def shards_counted(self) -> int:
        """How many shards are counted."""
        with self._lock:
            return sum(count is not None for count in self._counts)

    def first_number(self, shard: int) -> int:
        """The number of the first sample of a shard that is counted."""
        with self._lock:
            if not 0 <= shard < len(self._starts) - 1:
                raise IndexError(f"shard {shard} is not counted yet, or there is none: there are {len(self.urls)}")
            return self._starts[shard]

    def count(self, shard: int) -> int | None:
        """How many samples a shard has; None if it is not counted yet."""
        return self._counts[shard]

    def at(self, number: int) -> Found:
        """A sample by number."""
        with self._lock:
            if not 0 <= number < self._starts[-1]:
                raise IndexError(f"there is no sample {number:,}: {self._starts[-1]:,} are known")
            shard = bisect_right(self._starts, number) - 1
            inside = number - self._starts[shard]
        # Outside the lock: a store that does not answer must not block requests for other shards.
        return Found(number, shard, inside, self.view(shard))

    def view(self, shard: int) -> ShardView:
        """The samples of a shard."""
        with self._lock:
            found = self._views.get(shard) or self._streamed.get(shard)
            if found is not None:
                return found
        view = IndexedShard(self.urls[shard], self._index(shard))
        self._keep(shard, view)
        return view

    def views(self) -> Iterator[tuple[int, int, ShardView | WebDatasetError]]:
        """All shards that are counted: their number, the number of their first sample, and their samples."""
        for shard in range(len(self._starts) - 1):
            try:
                yield shard, self._starts[shard], self.view(shard)
            except WebDatasetError as error:
                yield shard, self._starts[shard], error

    def find(self, key: str) -> int:
        """The number of the sample with this key."""
        for _, start, view in self.views():
            for number, each in enumerate(() if isinstance(view, WebDatasetError) else view.keys):
                if each == key:
                    return start + number
        raise ShardNotFound(
            f"there is no sample {key!r} among {len(self):,}", hint="keys are compared whole; filter for a part of one"
        )

    def wait(self, look: Callable[[], None] = lambda: None) -> None:
        """Wait until all shards are counted; `look` is called repeatedly, and may raise an error."""
        for thread in self._threads:
            while thread.is_alive():
                look()
                thread.join(_CHECK_EVERY)

    def stop(self) -> None:
        """Begin to end: counting is cancelled."""
        self._closed.set()

    def close(self) -> None:
        """End counting, close shards, remove temporary files."""
        self.stop()
        self.wait()
        with self._lock:
            for view in self._views.values():
                view.close()
            self._views.clear()
            self._streamed.clear()
        self._learned.close()

    def _index(self, shard: int) -> ShardIndex:
        url = self.urls[shard]
        with located(shard=url):
            index = load_index(url, self._place) or self._unsaved.get(url)
            index = index or load_index(url, self._learned.name) or self._built(url)
        expected = self._counts[shard]
        if expected is not None and len(index) != expected:
            raise SpecError(
                f"the description counts {expected} samples, the index {len(index)}",
                Where(shard=url),
                hint="describe the dataset again with `wds index create`",
            )
        return index

    def _keep(self, shard: int, view: ShardView) -> None:
        with self._lock:
            self._views[shard] = view
            while len(self._views) > _OPEN_SHARDS:
                self._views.popitem(last=False)  # not closed: a request may be reading; the last reference closes it

    def _count_shards(self) -> None:
        """Count shards until there are no more; the target of each thread."""
        while not self._closed.is_set():
            with self._lock:
                shard = next(self._todo, None)
            if shard is None:
                return
            try:
                with stores.abandonable(self._closed):
                    self._count_shard(shard)
            except ClosedError:
                return
            except Exception as error:  # of any class, from a store or a user's opener: the other shards are counted
                what = error.what if isinstance(error, WebDatasetError) else f"{type(error).__name__}: {error}"
                self._note(shard, what, getattr(error, "hint", None) or "run `wds check` on the shard")
                self._set_count(shard, 0)

    def _count_shard(self, shard: int) -> None:
        url = self.urls[shard]
        if url == "-" or stores.scheme_of(url) == "pipe" or is_packed(url):
            self._stream_only(shard)
            return
        count = load_count(url, self._place)
        if count is None:
            if shard == 0 and stores.is_local(url) is None:
                self._show_first(url)
            index = self._built(url)
            count = len(index)
            self._keep(shard, IndexedShard(url, index))
        self._set_count(shard, count)

    def _show_first(self, url: str) -> None:
        """Show the first samples of the dataset before its first shard is counted."""
        first = StreamedShard(url)
        with self._lock:
            self._streamed[0] = first
            self._starts = [0, len(first)]

    def _stream_only(self, shard: int) -> None:
        view = StreamedShard(self.urls[shard])
        if not view.complete:
            remedy = "decompress it, or copy it to a store with random access, to see all"
            self._note(shard, f"only the first {len(view)} samples are shown: the shard has no random access", remedy)
        with self._lock:
            self._streamed[shard] = view
        self._set_count(shard, len(view))

    def _note(self, shard: int, what: str, remedy: str) -> None:
        with self._lock:
            self.problems[shard] = Problem(stores.redacted(self.urls[shard]), stores.redacted(what), remedy)

    def _set_count(self, shard: int, count: int) -> None:
        with self._lock:
            self._counts[shard] = count
            if isinstance(self._views.get(shard), IndexedShard):
                self._streamed.pop(shard, None)
            if shard == 0 or self._counts[0] is not None:
                self._count_starts()

    def _count_starts(self) -> None:
        known = next((shard for shard, count in enumerate(self._counts) if count is None), len(self._counts))
        self._starts = [0, *accumulate(count or 0 for count in self._counts[:known])]

    def _built(self, url: str) -> ShardIndex:
        """Build the index of a shard that has none."""
        # A local shard may be indexed by its headers alone. Another one is read once, unless the catalog is closed.
        index = build_index(url, watch=None if stores.is_local(url) is not None else self._check_open)
        try:
            save_index(index, url, self._learned.name)
        except EncodingError:  # names with blanks have no place in an index file
            with self._lock:
                self._unsaved[url] = index
        return index

    def _check_open(self, _data: bytes) -> None:
        if self._closed.is_set():
            raise ClosedError


def _expanded(spec: str) -> list[str]:
    """The shards of one input. `tools.expand_inputs` does the same, and its package loads the training pipeline."""
    if spec.endswith(".json"):
        return read_description(spec).urls
    return [spec] if spec == "-" else expand(spec)
