"""`WebDataset`: from a shard spec to samples, in the usual order of stages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from webdataset import config, shards, stores
from webdataset.arguments import require_callable_or_none, require_count, require_number
from webdataset.describe import refuse_unknown
from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.handlers import Handler, reraise_exception
from webdataset.redact import warn
from webdataset.samples import ReadSamples

from ._epoch_length import ENDLESS
from ._fluid import FluidInterface
from ._index_options import IndexRequests, indexed, is_description
from ._indexed_api import Plannable
from ._pipeline import DataPipeline
from ._stage_kinds import is_stage

if TYPE_CHECKING:
    from webdataset.index import VerifyShards

# Stores with a latency, which further connections hide: 4 connections of 40 MB/s with a latency of 50 ms reached 96 %
# of their bandwidth (benchmarks/transport.py).
_NETWORK = frozenset({"http", "https", "s3", "gs", "az", "abfs", "abfss", "adl", "hf", "ais", "sftp", "ssh", "ftp"})
_CONNECTIONS = 4

_RENAMED = {"splitter": "workersplitter", "cache_verbose": "verbose", "cache_name": "url_to_name"}


class FluidWrapper(DataPipeline, FluidInterface):
    """Any source with the fluid interface.

    >>> list(FluidWrapper(["a", "b"]).map(str.upper))
    ['A', 'B']
    """

    def __init__(self, initial: Any) -> None:
        super().__init__(initial)


class WebDataset(Plannable, DataPipeline, FluidInterface):
    """The samples of a set of shards.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://docs/a.tar", [{"__key__": "0", "txt": "hello"}, {"__key__": "1", "txt": "world"}])
    >>> [sample["txt"] for sample in WebDataset(shard).decode()]
    ['hello', 'world']

    Args:
        urls: a path, URL or `pipe:` command, with `{000..123}` for many shards, `::` between several specs, a glob, a
            directory (with a `/` at its end), a list of these, a `.yaml` spec, or a shard source such as
            `SimpleShardList`, whose shards are not split unless a splitter is given.
        handler: what to do with shards and members that cannot be read (not with what later stages do).
        resampled: draw shards with replacement, for ever; combine with `with_epoch`.
        repeat: make passes for ever.
        shardshuffle: read the shards in a new order each epoch; any positive number shuffles all of them.
        cache_dir: keep shards that come over the network in this directory, up to `cache_size` bytes. With an index
            each is fetched as a whole when a sample of it is first read.
        url_to_name: names the cache files; by default a hash of the whole URL is part of the name.
        detshuffle: accepted; shards are always shuffled by (seed, epoch).
        nodesplitter: which shards are this rank's (None: all). By default every R-th; ranks that outnumber the shards
            take turns inside them.
        workersplitter: which of those are this worker's, likewise. With a splitter of your own, whole shards are split,
            and a worker without shards is an error; if it splits by rank and worker, give it as `nodesplitter`.
        select_files: keep only members whose name a predicate (or glob) accepts; `rename_files` is applied before.
        empty_check: a pass without samples is an error.
        seed: decides every order, together with the epoch; the same on all ranks.
        strict: a shard without its end-of-archive marker is an error.
        read_ahead: how many shards to read at once, the one in use included, by threads and in order. By default 4
            where shards come over a network, and 1 elsewhere.
        in_memory: read every shard once and keep it, in memory that all worker processes share.
        index: where the shards' indexes are: None uses those beside local shards if every shard has one; True insists
            on them, wherever the shards are; a directory or URL names another location; False reads without. A shard
            without an index is read once, and its index kept there. `urls` may also be a `.json` description (as `wids`
            has it). With an index the order is one of all samples, the same for any number of ranks and workers, epochs
            have equal steps, `len` is known, and a checkpoint goes on anywhere (docs/explanation/order.md).
        fields: read only these fields (indexed).
        uneven: how several ranks get equally many steps (indexed): "pad" fills the last one with samples marked
            `__pad__`, "drop" leaves it out.
        order: which samples are mixed (indexed): "sequential", "random" (all), "quasi-random" (small runs of samples),
            or how many shards at a time. By default as `shardshuffle` and `.shuffle(n)` say.
        store_index: store the index of every shard that is streamed to its end, True next to local shards, or in a
            directory or URL; no byte is read for it. Once all shards have one, it works as `index`.
        failed: "replace" puts another sample of the same batch, marked `__pad__`, in the place of one that a handler
            skips or a filter leaves out, so that all ranks have the same number of full batches (indexed).
        copy: False makes the fields read-only views (`memoryview`) of what was read, which decoders and writers take
            like bytes. Samples of 100 kB are read faster; a view that you keep also keeps the megabyte around it in
            memory (docs/howto/views.md).
    """

    def __init__(
        self,
        urls: Any,
        handler: Handler = reraise_exception,
        mode: str | None = None,
        resampled: bool = False,
        repeat: bool = False,
        shardshuffle: bool | int | None = None,
        cache_size: float = -1,
        cache_dir: str | os.PathLike[str] | None = None,
        url_to_name: Callable[[str], str] | None = None,
        detshuffle: bool = False,
        nodesplitter: Any = shards.split_by_node,
        workersplitter: Any = shards.split_by_worker,
        select_files: Any = None,
        rename_files: Callable[[str], str] | None = None,
        empty_check: bool = True,
        verbose: bool = False,
        seed: int | None = None,
        *,
        strict: bool = True,
        in_memory: bool = False,
        read_ahead: int | None = None,
        index: bool | str | os.PathLike[str] | None = None,
        fields: Sequence[str] | None = None,
        uneven: str | None = None,
        order: str | int | None = None,
        store_index: bool | str | os.PathLike[str] | None = None,
        failed: str | None = None,
        copy: bool = True,
        **older: Any,
    ) -> None:
        super().__init__()
        if seed is not None:
            self.seed = require_count("WebDataset", "seed", seed)
        resampled = resampled or mode == "resampled"
        older = _renamed(older)
        workersplitter = older.pop("workersplitter", workersplitter)
        verbose = older.pop("verbose", verbose)
        url_to_name = older.pop("url_to_name", url_to_name)
        length = older.pop("length", None)
        refuse_unknown("WebDataset", older, WebDataset)
        urls = shards.kept(urls)
        opener = cache_opener(cache_dir, cache_size, url_to_name, verbose=verbose, in_memory=in_memory)
        shuffled = _wants_shuffle(shardshuffle)
        requests = IndexRequests(index, fields, uneven, order, store_index, failed)
        reason = _reason_against_index(
            urls,
            resampled=resampled,
            select_files=select_files,
            rename_files=rename_files,
            in_memory=in_memory and not hasattr(opener, "fetch"),
            nodesplitter=nodesplitter is not shards.split_by_node,
            workersplitter=workersplitter is not shards.split_by_worker,
        )
        found = _indexed(urls, requests, reason, getattr(opener, "fetch", None), copy=copy)
        if found is not None:
            from webdataset.plan import ReadPlanned

            mixed, chunk = requests.window_and_chunk(shuffled=shuffled)
            plan = ReadPlanned(found, mixed, chunk, 1, uneven, fields, handler, strict, empty_check, opener, failed)
            self.append(plan)
        else:
            named, verify = _described(urls)
            source = shard_source(named, resampled=resampled, seed=self.seed)
            # Shards that are drawn need no shuffle, which would wait for their end.
            drawn = resampled or isinstance(source, shards.ResampledShards)
            by_node, by_worker = _splitting(urls, nodesplitter, workersplitter, resampled, may_be_empty=not empty_check)
            self._append_all(
                source,
                by_node,
                shards.ShuffleShards() if shuffled and not drawn else None,
                by_worker,
                _ahead(source, read_ahead, opener, handler),
                ReadSamples(
                    handler,
                    select_files,
                    rename_files,
                    strict=strict,
                    opener=opener,
                    store_index=requests.storing,
                    verify=verify,
                    copy=copy,
                ),
                CheckEmpty(getattr(source, "urls", ())) if empty_check else None,
            )
        self._append_all(*_joins(urls, copy=copy))
        if repeat:
            self.repetitions = ENDLESS
        if length is not None:
            self.size = int(length)

    def _append_all(self, *stages: Any) -> None:
        for stage in stages:
            if stage is not None and stage is not False:
                self.append(stage)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _reason_against_index(urls: Any, **reasons: Any) -> str | None:
    """Return the reason why the shards cannot be read by an index; None if they can."""
    if isinstance(urls, shards.SimpleShardList):
        named = urls.seed is None
    else:
        named = not isinstance(urls, dict) and not is_stage(urls)
    if not named or (isinstance(urls, (str, Path)) and str(urls).endswith((".yaml", ".yml"))):
        return f"the shards are not listed but made by {type(urls).__name__}"
    return next((f"{name}= was given" for name, reason in reasons.items() if reason), None)


def _indexed(
    urls: Any, requests: IndexRequests, reason: str | None, fetch: Callable[[str], str] | None, *, copy: bool
) -> Any:
    if requests.index is False or reason is not None:
        if requests.needs_index is not None:
            raise SpecError(
                f"{requests.needs_index} needs an index, and {reason or 'index=False was given'}",
                hint="leave one of them out",
            )
        return None
    if not isinstance(urls, (str, Path, Iterable)):
        return None
    if isinstance(urls, shards.SimpleShardList) and requests.needs_index is None:  # unsplit: every reader reads it all
        return None
    return indexed(urls, requests, fetch, copy=copy)


def _described(urls: Any) -> tuple[Any, VerifyShards | None]:
    """Return the shards of a description, for reading without an index, and what verifies them; others unchanged."""
    if not is_description(urls):
        return urls, None
    from webdataset.index import VerifyShards, read_description

    description = read_description(urls)
    return description.urls, VerifyShards(description.shards)


def _joins(urls: Any, *, copy: bool) -> list[Any]:
    """Return the stages that add the fields of other shards, if a description names some."""
    if not is_description(urls):
        return []
    from webdataset.index import read_description
    from webdataset.plan import described_joins

    return described_joins(read_description(urls), copy=copy)


def shard_source(urls: Any, *, resampled: bool, seed: int) -> Any:
    """Return the first stage for the `urls` of a user."""
    if isinstance(urls, dict) or (isinstance(urls, (str, Path)) and str(urls).endswith((".yaml", ".yml"))):
        return shards.MultiShardSample(urls)
    if is_stage(urls):
        return urls
    if isinstance(urls, (str, Path, Iterable)):
        return (
            shards.ResampledShards(urls, seed=seed, deterministic=True) if resampled else shards.SimpleShardList(urls)
        )
    raise SpecError(
        f"{urls!r:.200} does not name shards",
        hint="give a path or URL, a list of them, or a shard source such as wds.SimpleShardList(...)",
    )


def cache_opener(
    directory: Any, size: float, url_to_name: Callable[[str], str] | None, *, verbose: bool, in_memory: bool = False
) -> Any:
    """Return what opens a shard: a cache in memory or in a directory if there is one, else the store itself."""
    _check_cache(directory, size, url_to_name)
    if in_memory:
        from webdataset.cache import MemoryOpener

        return MemoryOpener(cache_opener(directory, size, url_to_name, verbose=verbose))
    directory = directory if directory is not None else config.read("WDS_CACHE")
    size = size if size != -1 else config.read("WDS_CACHE_SIZE")
    if directory is None or size == 0:
        return stores.open_read
    path = Path(directory).expanduser()
    if not os.path.isdir(path):
        raise SpecError(f"the cache directory {path} does not exist", hint="create it, or name another with cache_dir=")
    from webdataset.cache import CachedOpener, ShardCache, url_to_hashed_name

    return CachedOpener(ShardCache(str(path), int(size), url_to_name or url_to_hashed_name, verbose=verbose))


def _check_cache(directory: Any, size: Any, url_to_name: Any) -> None:
    if not isinstance(directory, str | os.PathLike | None):
        raise SpecError(f"cache_dir={directory!r}: expected the path of a directory")
    require_number("WebDataset", "cache_size", size, least=-1, expected="a number of bytes, or -1 for no limit")
    require_callable_or_none("WebDataset", url_to_name=url_to_name)


@dataclass(frozen=True)
class CheckEmpty(shards.NonEmpty):
    """Refuses a pass without samples; if it is one of several workers, it only warns.

    Attributes:
        urls: the addresses of the shards, for the message.
    """

    urls: Sequence[str] = field(default=(), repr=False, compare=False)

    def refuse(self, during: Pass) -> None:
        """Raise the error about a pass without samples, or warn."""
        if during.world.part[1] == 1:
            raise shards.no_samples(self.urls)
        warn("this worker got no samples: there are fewer shards than workers", stacklevel=2)


def _ahead(source: Any, depth: int | None, opener: Any, handler: Handler) -> Any:
    """Return the stage that opens the next shards while one is read; None where that would not help."""
    if depth is None:
        first = next(iter(getattr(source, "urls", ())), "")
        depth = _CONNECTIONS if stores.scheme_of(first) in _NETWORK else 1
    if require_count("WebDataset", "read_ahead", depth, least=1) == 1:
        return None
    from webdataset.cache import OpenAhead

    return OpenAhead(depth, opener=opener, handler=handler)


def _splitting(
    urls: Any, nodesplitter: Any, workersplitter: Any, resampled: bool, *, may_be_empty: bool
) -> tuple[Any, Any]:
    """Return the stages that give each rank and each worker its shards.

    Shards of a source, and those drawn at random, are not split unless a splitter was given. If both splitters are
    ours, readers that outnumber the shards share them.
    """
    defaults = nodesplitter is shards.split_by_node and workersplitter is shards.split_by_worker
    if resampled or (defaults and is_stage(urls)):
        return None, None
    if shards.are_ours(nodesplitter, workersplitter):
        return (
            shards.ShareShards("rank") if nodesplitter is shards.split_by_node else nodesplitter,
            shards.ShareShards("worker") if workersplitter is shards.split_by_worker else workersplitter,
        )
    return shards.SplitShards(nodesplitter, workersplitter, may_be_empty), None


def _wants_shuffle(shardshuffle: Any) -> bool:
    if shardshuffle is not None and (not isinstance(shardshuffle, Real) or shardshuffle < 0):
        raise SpecError(f"shardshuffle={shardshuffle!r}: expected True, False, or a number of at least 0")
    return bool(shardshuffle)


def _renamed(older: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the 0.1 and 0.2 series under their present names."""
    for name in [name for name in older if name in _RENAMED]:
        warn(f"{name}= was renamed to {_RENAMED[name]}=", DeprecationWarning, stacklevel=3)
        older[_RENAMED[name]] = older.pop(name)
    return older
