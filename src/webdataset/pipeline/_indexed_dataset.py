"""`IndexedDataset`: a map-style dataset of the shards that a user names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from webdataset import index as offsets
from webdataset import shards, stages
from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.handlers import reraise_exception
from webdataset.index import Description, read_description
from webdataset.plan import JoinFields, described_joins

from ._index_options import IndexRequests, check_fields, is_description
from ._spawn_pickling import SpawnPickling


class IndexedDataset(SpawnPickling, offsets.IndexedShards):
    """The samples of some shards by number: `len`, any sample, any slice, any key, only the fields that are wanted.

    >>> from webdataset.testing import make_shard
    >>> for name in ("a", "b"):
    ...     shard = make_shard(f"memory://docs/{name}.tar", [{"__key__": name + n, "txt": n, "cls": 3} for n in "01"])
    >>> dataset = IndexedDataset("memory://docs/{a,b}.tar").decode()
    >>> len(dataset), dataset[3]["txt"], dataset["b0"]["cls"], [sample["__key__"] for sample in dataset[1:3]]
    (4, '1', 3, ['a1', 'b0'])
    >>> dataset.where(3).extents
    (Extent(field='cls', offset=2560, size=1), Extent(field='txt', offset=3584, size=1))

    Local shards are mapped into memory; of others the bytes of the wanted samples are fetched, neighbours together. It
    goes to worker processes, forked or spawned, and works with torch's samplers and `DataLoader`.

    Args:
        urls: a path or URL with `{000..123}`, globs and `::`, a directory, a list of these, or the description of a
            dataset: a `.json` as `wids` has it, or its content.
        fields: fetch only these; None fetches all.
        index: as for `WebDataset`: True or a directory or bucket is where indexes are, and where those that had to be
            built are kept; True and None look beside the shards. A shard without an index is read once.
        transform: a function of a sample; `map` and `decode` add more.
        lazy: fetch a field when it is read, not before.
        store_index: store the indexes that had to be built, in `index` or beside the shards.
    """

    def __init__(
        self,
        urls: str | os.PathLike[str] | Iterable[Any] | Mapping[str, Any] | Description,
        *,
        fields: Sequence[str] | None = None,
        index: bool | str | os.PathLike[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        lazy: bool = False,
        store_index: bool = False,
    ) -> None:
        check_fields(fields)
        requests = IndexRequests(index)
        if index is False:
            raise SpecError("an IndexedDataset needs an index", hint="WebDataset(…, index=False) reads without one")
        urls = shards.kept(urls)
        super().__init__(
            named_shards(urls),
            fields=fields,
            index=requests.location,
            functions=(*_joins(urls), *(() if transform is None else (transform,))),
            lazy=lazy,
            store_index=store_index or bool(index),
        )

    def decode(self, *handlers: Any, **options: Any) -> Self:
        """The same samples with decoded fields; takes what `wds.decode` takes, such as `decode("rgb8", size=224)`."""
        return self._with(stages.decode(*handlers, **options))

    def to_tuple(self, *fields: Any, **options: Any) -> Self:
        """Tuples of the named fields; takes what `wds.to_tuple` takes."""
        return self._with(stages.to_tuple(*fields, **options))

    def _with(self, stage: Any) -> Self:
        if self._lazy:
            raise SpecError("lazy samples are not decoded as a whole", hint="decode the fields that you ask for")
        if stage.handler is not reraise_exception:
            raise SpecError("a sample that was asked for cannot be left out", hint="leave handler= out")
        return self.map(_OneStage(stage))


@dataclass(frozen=True)
class _OneStage:
    """A stage as a function of a sample; unlike a closure, it can be sent to worker processes."""

    stage: Any

    def __call__(self, sample: Any) -> Any:
        return self._function(sample)

    @cached_property
    def _function(self) -> Callable[[Any], Any]:
        return self.stage.function(Pass())  # type: ignore[no-any-return]  # a stage may be anything

    def __getstate__(self) -> dict[str, Any]:
        return {"stage": self.stage}


def _joins(urls: Any) -> list[Callable[[Any], Any]]:
    """Return the functions that add the fields of other shards, if a description names some."""
    if not is_description(urls):
        return []
    stages = described_joins(read_description(urls))
    if not all(isinstance(stage, JoinFields) for stage in stages):
        raise SpecError(
            f"{urls} leaves out samples that are missing in the joined shards, so its samples have no fixed numbers",
            hint='read it with WebDataset, or describe it again with missing="keep"',
        )
    return [stage.function(Pass()) for stage in stages]


def named_shards(urls: Any) -> list[str] | Description:
    """Return the shards that a user named, as a list of addresses or as a description.

    >>> named_shards("train-{0..1}.tar")
    ['train-0.tar', 'train-1.tar']
    """
    if isinstance(urls, Description):
        return urls
    if isinstance(urls, Mapping) or is_description(urls):
        return read_description(urls)
    if isinstance(urls, shards.SimpleShardList):
        return list(urls.urls)
    return shards.expand(urls)
