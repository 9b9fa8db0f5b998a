"""Which datasets are read by plan: those whose shards have indexes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webdataset import index as offsets
from webdataset import shards, stores
from webdataset.arguments import is_integer, require_choice
from webdataset.decompress import is_packed
from webdataset.errors import FormatError, SpecError, StoreError
from webdataset.redact import warn

if TYPE_CHECKING:
    from webdataset.index import Description, IndexedShards, StoreIndexes

_log = logging.getLogger(__name__)

_ORDERS = ("sequential", "random", "quasi-random")
# Neighbours that a quasi-random order keeps together: with 100 kB samples a read of 3 MB, which disks and stores like.
_CHUNK = 32


def check_fields(fields: Any) -> None:
    """Refuse what names no fields.

    >>> check_fields("json")
    Traceback (most recent call last):
    webdataset.errors.SpecError: fields='json': expected a list of field names, such as ("json",)
    """
    if fields is not None and (
        isinstance(fields, str) or not isinstance(fields, Iterable) or not all(isinstance(name, str) for name in fields)
    ):
        raise SpecError(f'fields={fields!r}: expected a list of field names, such as ("json",)')


@dataclass(frozen=True)
class IndexRequests:
    """The user's arguments about indexed reading; None where no argument was given.

    >>> IndexRequests(order="random").window_and_chunk(shuffled=False)
    (None, None)
    """

    index: bool | str | PathLike[str] | None = None
    fields: Sequence[str] | None = None
    uneven: str | None = None
    order: str | int | None = None
    store_index: bool | str | PathLike[str] | None = None
    failed: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("index", self.index), ("store_index", self.store_index)):
            if not isinstance(value, (bool, str, PathLike, type(None))):
                raise SpecError(f"{name}={value!r}: expected a directory or URL, True (next to the shards) or False")
        require_choice("uneven", self.uneven, (None, "pad", "drop"))
        require_choice("failed", self.failed, (None, "replace"))
        mixed = is_integer(self.order) and self.order >= 0
        if not mixed and self.order not in (None, *_ORDERS):
            choices = ", ".join(_ORDERS)
            raise SpecError(f"order={self.order!r}: expected {choices}, or how many shards are mixed at a time")
        check_fields(self.fields)

    @property
    def needs_index(self) -> str | None:
        """The argument that needs an index, as text; None if none does."""
        names = ("fields", "uneven", "order", "failed")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.index not in {None, False}:
            given["index"] = self.index
        return next((f"{name}={value!r}" for name, value in given.items() if value is not None), None)

    @property
    def location(self) -> str | None:
        """Where the indexes are stored; None if they are next to the shards."""
        named = (wish for wish in (self.index, self.store_index) if isinstance(wish, (str, PathLike)))
        return next(map(stores.as_address, named), None)

    @property
    def storing(self) -> StoreIndexes | None:
        """What stores the indexes of shards that are streamed."""
        return offsets.StoreIndexes(self.location) if self.store_index not in {None, False} else None

    def window_and_chunk(self, *, shuffled: bool) -> tuple[int | None, int | None]:
        """Return the order as a window and a chunk, for `ReadPlanned`."""
        if isinstance(self.order, str):
            return {"sequential": (0, None), "random": (None, None), "quasi-random": (0, _CHUNK)}[self.order]
        return (int(shuffled) if self.order is None else int(self.order)), None


def is_description(urls: Any) -> bool:
    """Whether this names a dataset description.

    >>> is_description("data/train.json"), is_description(["a.tar"])
    (True, False)
    """
    return isinstance(urls, (str, Path)) and str(urls).partition("?")[0].endswith(".json")


def indexed(
    urls: Any, requests: IndexRequests, fetch: Callable[[str], str] | None = None, *, copy: bool = True
) -> IndexedShards | None:
    """Return the dataset with its indexes; None if it has none and no argument needs them.

    >>> indexed(["/nowhere/a.tar"], IndexRequests()) is None
    True
    """
    described: Sequence[str] | Description
    if is_description(urls):
        described = offsets.read_description(urls)
    else:
        described = _addresses(urls)
        if requests.needs_index is None and not _are_ready(described, requests.location):
            return None
    stored = bool(requests.index or requests.store_index)
    try:
        found = offsets.IndexedShards(
            described, fields=requests.fields, index=requests.location, store_index=stored, fetch=fetch, copy=copy
        )
    except FormatError as error:
        if requests.needs_index is not None:
            raise
        warn(f"reading without index: {error}; index=False says so beforehand", stacklevel=4)
        return None
    # An index changes the order of the samples, so the user must see that there is one.
    _log.info("%d shards are read by their indexes: %d samples in one order for all ranks", len(found.urls), len(found))
    return found


def window_for(counts: Sequence[int], samples: int) -> int | None:
    """Return how many shards, whichever they are, have at least so many samples together; None if it takes all.

    >>> window_for([10, 20, 30], 25), window_for([10, 20, 30], 60)
    (2, None)
    """
    import numpy as np

    window = int(np.searchsorted(np.cumsum(np.sort(np.asarray(counts, np.int64))), samples)) + 1
    return window if window < len(counts) else None


def _addresses(urls: Any) -> list[str]:
    if isinstance(urls, shards.SimpleShardList):
        return list(urls.urls)
    return shards.expand(urls)


def _are_ready(urls: Sequence[str], location: str | None) -> bool:
    """Whether every shard has an index: local directories are looked into, a location for indexes is listed once."""
    if any(map(is_packed, urls)):
        return False
    if location is None:
        return all(map(offsets.has_index, urls))
    try:
        known = {name.rpartition("/")[2] for name in stores.list_urls(f"{location.rstrip('/')}/")}
    except StoreError:
        return False
    return all(offsets.index_url(url, location).rpartition("/")[2] in known for url in urls)
