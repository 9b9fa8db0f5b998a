"""Names of the 0.1 and 0.2 series that later versions dropped, so that old tutorials run."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from webdataset import config
from webdataset.cache import FileCache, LRUCleanup, check_tar_format, pipe_cleaner, url_to_hashed_name
from webdataset.codecs import cbor_loads, read_cbor_item
from webdataset.errors import SpecError, TruncatedShard, Where, located
from webdataset.handlers import Handler, reraise_exception
from webdataset.pipeline import DataPipeline, FluidInterface, FluidWrapper, RoundRobin, WebDataset, with_length
from webdataset.samples import ReadSamples
from webdataset.shards import ShuffleShards, SimpleShardList, split_by_node, split_by_worker
from webdataset.stages import pipelinefilter
from webdataset.stores import open_read

from .multi import MultiLoader

__all__ = [
    "ChoppedDataset",
    "Composable",
    "Dataset",
    "FakeLength",
    "MultiDataset",
    "Processor",
    "PytorchShardList",
    "ResizedDataset",
    "SampleEqually",
    "ShardList",
    "Shorthands",
    "cached_tarfile_samples",
    "cached_tarfile_to_samples",
    "cached_url_opener",
    "cbors2_to_samples",
    "cbors_to_samples",
    "lru_cleanup",
    "maybe_cached_tarfile_to_samples",
]

Dataset = WebDataset
ShardList = SimpleShardList
Shorthands = FluidInterface


class Composable(DataPipeline):
    """A dataset that is given its source later.

    >>> list(Composable().source_([1, 2]))
    [1, 2]
    """

    def source_(self, source: Any) -> Self:
        """Set the first stage; returns this object.

        >>> list(Composable([1]).source_([2, 3]))
        [2, 3]
        """
        rest = self.pipeline[1:]
        self.pipeline = []
        for stage in (source, *rest):
            self.append(stage)
        return self


class Processor(Composable, FluidInterface):
    """A stage and its arguments, to be applied to a dataset.

    >>> from webdataset.stages import map
    >>> list(Processor(map, str.upper)(["a", "b"]))
    ['A', 'B']

    The older form names the dataset first, and a function of a stream and its arguments.

    >>> from itertools import islice
    >>> list(Processor(["a", "b"], islice, 1))
    ['a']
    """

    def __init__(self, source: Any, f: Any = None, *args: Any, **kw: Any) -> None:
        self._stage: Any = None
        if isinstance(source, Iterable):
            super().__init__(source, pipelinefilter(f)(*args, **kw))
            return
        super().__init__()
        given = (f, *args) if f is not None else args
        self._stage = source(*given, **kw)

    def __call__(self, dataset: Any) -> FluidWrapper:
        """The dataset with the stage after it."""
        if self._stage is None:
            raise SpecError("this Processor has its dataset already", hint="iterate over it")
        return FluidWrapper(dataset).compose(self._stage)


class ResizedDataset(DataPipeline, FluidInterface):
    """A dataset whose epochs have `length` items, each from where the last one stopped, and a nominal length.

    >>> dataset = ResizedDataset([0, 1, 2], length=2)
    >>> list(dataset), list(dataset), len(dataset)
    ([0, 1], [2, 0], 2)
    """

    def __init__(self, dataset: Any, length: int | None = None, nominal: int | None = None) -> None:
        super().__init__(dataset)
        if length is None:
            length = len(dataset)
        resized = self.with_epoch(length).with_length(length if nominal is None else nominal)
        self.__dict__.update(resized.__dict__)


ChoppedDataset = ResizedDataset
FakeLength = with_length


class SampleEqually(RoundRobin):
    """One item from each dataset in turn, until the first of them ends.

    >>> list(SampleEqually([[1, 2], ["a", "b"]]))
    [1, 'a', 2, 'b']
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        super().__init__(datasets)


class MultiDataset(MultiLoader):
    """A dataset read by worker processes, with a nominal length.

    >>> len(MultiDataset([1, 2], workers=1, nominal=2))
    2

    Args:
        dataset: anything that can be iterated.
        workers: how many processes.
        output_size: accepted; the pipes between the processes are the buffer.
        nominal: the value of `len()`.
        pin_memory: accepted; the training loop moves data to a device.
    """

    def __init__(
        self,
        dataset: Iterable[Any],
        workers: int = 4,
        output_size: int = 10000,
        nominal: int | None = None,
        pin_memory: bool = True,
    ) -> None:
        super().__init__(dataset, workers=workers)
        self.nominal = nominal

    def __len__(self) -> int:
        if self.nominal is None:
            raise TypeError("MultiDataset has no length; give it one with nominal=")
        return self.nominal


class PytorchShardList(DataPipeline):
    """Shards, in a new order each epoch, split among nodes and workers.

    >>> list(PytorchShardList("a-{0..1}.tar", shuffle=False))
    [{'url': 'a-0.tar'}, {'url': 'a-1.tar'}]

    Args:
        urls: what `SimpleShardList` takes.
        epoch_shuffle: accepted; the order is always decided by seed and epoch.
        shuffle: read the shards in a new order each epoch.
        split_by_worker: every worker process gets a part.
        split_by_node: every rank gets a part.
        verbose: accepted; nothing is printed.
    """

    def __init__(
        self,
        urls: Any,
        epoch_shuffle: bool = False,
        shuffle: bool = True,
        split_by_worker: bool = True,
        split_by_node: bool = True,
        verbose: bool = False,
    ) -> None:
        super().__init__(*_shard_stages(urls, shuffle, split_by_worker, split_by_node))


def _shard_stages(urls: Any, shuffle: bool, by_worker: bool, by_node: bool) -> Iterator[Any]:
    yield SimpleShardList(urls)
    if by_node:
        yield split_by_node
    if shuffle:
        yield ShuffleShards()
    if by_worker:
        yield split_by_worker


def cached_url_opener(
    data: Iterable[dict[str, Any]],
    handler: Handler = reraise_exception,
    cache_size: float = -1,
    cache_dir: str | os.PathLike[str] | None = None,
    url_to_name: Callable[[str], str] = url_to_hashed_name,
    validator: Callable[[str], bool] = check_tar_format,
    verbose: bool = False,
    always: bool = False,
) -> Iterator[dict[str, Any]]:
    """Open shards through the shard cache.

    >>> list(cached_url_opener([]))
    []
    """
    return _cache(cache_dir, cache_size, url_to_name, verbose, handler, validator=validator)(data)


def cached_tarfile_samples(
    src: Iterable[dict[str, Any]],
    handler: Handler = reraise_exception,
    cache_size: float = -1,
    cache_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    url_to_name: Callable[[str], str] = url_to_hashed_name,
    always: bool = False,
    select_files: Any = None,
    rename_files: Callable[[str], str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The samples of shards, which are kept in the shard cache.

    >>> list(cached_tarfile_samples([]))
    []
    """
    stage = cached_tarfile_to_samples(
        handler, cache_size, cache_dir, verbose, url_to_name, always, select_files, rename_files
    )
    return stage(src)


def cached_tarfile_to_samples(
    handler: Handler = reraise_exception,
    cache_size: float = -1,
    cache_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    url_to_name: Callable[[str], str] = url_to_hashed_name,
    always: bool = False,
    select_files: Any = None,
    rename_files: Callable[[str], str] | None = None,
) -> ReadSamples:
    """The stage of `cached_tarfile_samples`.

    >>> import tempfile
    >>> list(cached_tarfile_to_samples(cache_dir=tempfile.mkdtemp())([]))
    []
    """
    cache = _cache(cache_dir, cache_size, url_to_name, verbose, handler)
    return ReadSamples(handler=handler, select_files=select_files, rename_files=rename_files, opener=cache.open)


def maybe_cached_tarfile_to_samples(
    handler: Handler = reraise_exception,
    cache_size: float = -1,
    cache_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    **kw: Any,
) -> ReadSamples:
    """Through the shard cache if a directory is given for it, here or with `WDS_CACHE`; else directly.

    >>> maybe_cached_tarfile_to_samples()
    ReadSamples()
    """
    if not (cache_dir or config.read("WDS_CACHE")):
        return ReadSamples(
            handler=handler, **{name: kw[name] for name in ("select_files", "rename_files") if name in kw}
        )
    return cached_tarfile_to_samples(handler, cache_size, cache_dir, verbose, **kw)


def _cache(
    directory: Any, size: float, url_to_name: Callable[[str], str], verbose: bool, handler: Handler, **kw: Any
) -> FileCache:
    # Old programs pass `pipe_cleaner`, which gives one name to many addresses.
    naming = url_to_hashed_name if url_to_name is pipe_cleaner else url_to_name
    return FileCache(directory or None, cache_size=size, url_to_name=naming, verbose=verbose, handler=handler, **kw)


def lru_cleanup(
    cache_dir: str | os.PathLike[str],
    cache_size: float,
    keyfn: Callable[[str], float] = os.path.getctime,
    verbose: bool = False,
) -> None:
    """Delete the least recently used files of a directory, until the rest fits.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a").write_bytes(bytes(1000))
    >>> lru_cleanup(folder, cache_size=500)
    >>> list(folder.iterdir())
    []
    """
    LRUCleanup(cache_dir, cache_size, keyfn=keyfn, verbose=verbose, interval=None).cleanup()


def _read_cbors(data: Iterable[dict[str, Any]], handler: Handler = reraise_exception) -> Iterator[dict[str, Any]]:
    """Read shards that are a row of CBOR maps, one per sample.

    >>> import cbor2
    >>> from webdataset.stores import open_write
    >>> with open_write("memory://docs/a.cbors") as stream:
    ...     for number in range(2):
    ...         cbor2.dump({"__key__": str(number), "cls": number}, stream)
    >>> for sample in cbors_to_samples()([{"url": "memory://docs/a.cbors"}]):
    ...     print(sample)
    {'__key__': '0', 'cls': 0, '__url__': 'memory://docs/a.cbors'}
    {'__key__': '1', 'cls': 1, '__url__': 'memory://docs/a.cbors'}
    """
    for shard in data:
        try:
            with located(shard=shard["url"]), open_read(shard["url"]) as stream:
                buffered = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
                while buffered.peek(1):
                    yield {**cbor_loads(read_cbor_item(buffered.read)), "__url__": shard["url"]}
        except EOFError as error:
            cut = TruncatedShard(
                "the shard ends in the middle of a sample", Where(shard=shard["url"]), hint="copy it again"
            )
            cut.__cause__ = error
            if not handler(cut):
                return
        except Exception as error:
            if not handler(error):
                return


cbors_to_samples = cbors2_to_samples = pipelinefilter(_read_cbors)
