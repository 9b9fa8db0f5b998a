"""Shards → samples: the stage, and the function for a single shard.

Failures have one of two scopes. A member that does not fit (a duplicate field, a key that comes back) costs at most its
sample; anything else (a shard that cannot be opened, a cut or damaged archive) costs the rest of its shard, the sample
that was being put together included: it may lack members. The handler is called once per failure; a true answer goes on
after the loss, a false one ends the stream.
"""

from __future__ import annotations

import inspect
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from webdataset import config, stores
from webdataset.arguments import require_callable, require_callable_or_none
from webdataset.errors import SpecError, StateError, Where, located
from webdataset.flow import EndOfStreamError, Json, Pass, Source, ask_handler, count_in, url_from_json
from webdataset.handlers import Handler, reraise_exception
from webdataset.names import split_name
from webdataset.redact import redacted, warn
from webdataset.tar import WINDOW, Header, Run, Windows, new_window, read_runs

from ._file_filter import Select, as_predicate, choose
from ._gather_samples import Gathered, Gatherer, Keys, Sample
from ._read_progress import UNKNOWN, InShard, ShardItem, as_shard, offset_in

if TYPE_CHECKING:
    from webdataset.index import GrowingIndex, StoreIndexes, VerifyShards

Opener = Callable[..., Any]


@dataclass(frozen=True, repr=False)
class ReadSamples(Source):
    """Shards in, samples out.

    >>> stage = ReadSamples(select_files="*.{jpg,cls}")
    >>> stage
    ReadSamples(select_files='*.{jpg,cls}')
    >>> list(stage([{"url": "missing.tar"}]))
    Traceback (most recent call last):
    webdataset.errors.ShardNotFound: ...

    Attributes:
        handler: called for every failure; see the docstring of this module.
        select_files: which members to read: a predicate on the name, or glob patterns. The others are not copied.
        rename_files: member name → member name, before they are selected.
        keys: member name → (key, field); (None, None) for members that belong to no sample.
        lcase: fields in lower case.
        suffixes: keep only these fields.
        strict: require the end-of-archive mark; False accepts an archive that is truncated between two members.
            One that is truncated inside a member is an error either way, after the members before it.
        concatenated: read all archives of a shard that is several, one after the other; False reads the first.
        allow_split: a key that comes back later in its shard starts another sample instead of being an error.
        opener: url → binary stream; one that also takes `start=` lets a resumed reading begin in the middle, and one
            that has `local_path(url)` returns the path of its copy of a shard.
        store_index: stores the index of every shard that is read from its beginning to its end without a failure.
        verify: compares shards that are read from their beginning to their end with their description.
        copy: False makes the fields read-only views of what was read.
    """

    handler: Handler = reraise_exception
    select_files: Select | None = None
    rename_files: Callable[[str], str] | None = None
    keys: Keys = split_name
    lcase: bool = True
    suffixes: Collection[str] | None = None
    strict: bool = True
    concatenated: bool = True
    allow_split: bool = False
    opener: Opener = stores.open_read
    store_index: StoreIndexes | None = None
    verify: VerifyShards | None = field(default=None, compare=False)
    copy: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        as_predicate(self.select_files)
        require_callable("ReadSamples", handler=self.handler, keys=self.keys, opener=self.opener)
        require_callable_or_none("ReadSamples", rename_files=self.rename_files)
        if isinstance(self.suffixes, str) or not isinstance(self.suffixes, Collection | None):
            raise SpecError(f"ReadSamples(suffixes={self.suffixes!r}) is not a list", hint='for example ["jpg", "cls"]')

    def __repr__(self) -> str:
        # Whether bytes are verified or copied changes no sample: a checkpoint goes on with and without.
        changed = (
            (f.name, getattr(self, f.name)) for f in fields(self) if f.compare and getattr(self, f.name) != f.default
        )
        shown = (f"{name}={getattr(value, '__qualname__', repr(value))}" for name, value in changed)
        return f"ReadSamples({', '.join(shown)})"

    def start(self, during: Pass) -> InShard:
        """No shard is open."""
        return InShard()

    def run(self, shards: Iterator[Any], at: InShard, /) -> Iterator[Sample]:
        """Finish the shard that is open, then read the others."""
        unfinished = [] if at.shard is None else [at.shard]
        memory = self._memory()
        try:
            for shard in chain(unfinished, map(as_shard, shards)):
                if shard is not at.shard:
                    at.open(shard)
                start, skip = 0, at.taken
                if skip and "stream" not in shard and self._can_start_at(at.offset):
                    start, skip = at.offset, 1  # the sample that begins there was yielded last
                with closing(self._batches(shard, start, skip, memory)) as batches:
                    for batch in batches:
                        at.hold(batch.offsets)
                        own_turns, end = _turns(shard, at.taken), at.taken + len(batch.samples)
                        # Freed one by one, so that the samples of the next window reuse memory that is in the cache of
                        # the processor: that saves 5 % of the time for samples of 100 kB.
                        samples = batch.samples[own_turns][::-1]
                        batch.samples.clear()
                        for taken in range(at.taken + 1, end + 1)[own_turns]:
                            sample = samples.pop()
                            at.taken = taken
                            yield sample
                        at.taken = end
                at.finish()
        except EndOfStreamError:
            at.stopped = True

    def recall(self, origin: Json) -> Sample:
        """Read one sample again: by its offset where the shard allows it, else by counting."""
        address, number, offset = origin
        url, offset = url_from_json(address), offset_in(offset)
        start_and_skip = self._start_and_skip(count_in(number), offset)
        with closing(self._batches({"url": url}, *start_and_skip, self._memory(), alone=True)) as batches:
            for batch in batches:
                return batch.samples[0]
        raise StateError(
            f"sample {number} not found",
            Where(shard=url, offset=None if offset == UNKNOWN else offset),
            hint="the shard was replaced by a shorter one; start from the beginning",
        )

    def batches_from(self, url: str, number: int, offset: int) -> Generator[list[Sample], None, None]:
        """The samples of a shard from one of them on, some at a time, given its number and where it begins.

        Raises:
            EndOfStreamError: the handler ended the stream.
        """
        for batch in self._batches({"url": url}, *self._start_and_skip(number, offset), self._memory()):
            yield batch.samples

    def _start_and_skip(self, number: int, offset: int) -> tuple[int, int]:
        """Return where to start reading to find a sample, and how many samples to skip from there."""
        return (offset, 0) if self._can_start_at(offset) else (0, number)

    def _batches(
        self, shard: ShardItem, start: int, skip: int, memory: dict[str, Any], *, alone: bool = False
    ) -> Generator[Gathered, None, None]:
        """The samples of one shard after the first `skip`, as many at a time as a window of the archive holds.

        If one sample `alone` is read, a shard that cannot be read is an error whatever the handler returns, and what is
        before it is ignored. The handler still decides about members, as it did the first time.
        """
        growing = None if alone else self._growing_index(shard, start)
        handler = self.handler if growing is None else growing.dropped_on_failure(self.handler)
        gatherer = self._gatherer(shard, 0 if alone else start, handler)
        batch = Gathered([], [])
        failed: list[Exception] = []  # not a variable: the traceback refers to this frame, which would be a cycle
        try:
            with located(shard=shard["url"]), closing(self._open(shard, start)) as stream:
                for run in read_runs(stream, start=start, **memory, **self._options(shard)):
                    try:
                        if growing is not None:
                            growing.add(run)
                        gatherer.feed(run if run.restartable else _without_offsets(run), batch)
                    except Exception as error:  # the handler was called already; raised after the samples before it
                        failed.append(error)
                    skip = batch.skip(skip)
                    if batch.samples:
                        yield batch
                        batch = Gathered([], [])
                    if failed:
                        break
        except Exception as error:
            ask_handler(reraise_exception if alone else self.handler, error)
            return  # without the unfinished sample, which may lack members
        if failed:
            raise failed.pop()
        gatherer.finish(batch)
        if growing is not None:
            growing.store()
        batch.skip(skip)
        if batch.samples:
            yield batch

    def _memory(self) -> dict[str, Any]:
        """Return the memory that all shards of a pass are read into, as arguments of `read_runs`."""
        return {"memory": new_window(WINDOW)} if self.copy else {"windows": Windows(WINDOW)}

    def _options(self, shard: ShardItem) -> dict[str, Any]:
        """Return the other arguments of `read_runs`."""
        return {
            "rename": choose(self.select_files, self.rename_files),
            "strict": self.strict,
            "concatenated": self.concatenated,
            "on_skip": _LinkWarning(shard["url"]),
            "limit": config.read("WDS_DECOMPRESS_LIMIT"),
        }

    def _open(self, shard: ShardItem, start: int) -> Any:
        if start:
            return self.opener(shard["url"], start=start)
        stream = shard["stream"] if "stream" in shard else self.opener(shard["url"])
        return stream if self.verify is None else self.verify.stream(shard["url"], stream)

    def _can_start_at(self, offset: int) -> bool:
        if offset == UNKNOWN:
            return False
        parameters = inspect.signature(self.opener).parameters.values()
        return any(p.name == "start" or p.kind is p.VAR_KEYWORD for p in parameters)

    def _growing_index(self, shard: ShardItem, start: int) -> GrowingIndex | None:
        """The index to build while this shard is read: if all of its members will be read, and by this reader.

        Of readers that share a shard the first one builds it.
        """
        everything = self.select_files is None and self.rename_files is None and self.strict and self.concatenated
        if self.store_index is None or start or not everything or shard.get("first"):
            return None
        return self.store_index.begin(shard["url"])

    def _names_before(self, shard: ShardItem, end: int) -> Iterator[str]:
        """The names of the members that begin before `end`."""
        with located(shard=shard["url"]), closing(self._open(shard, 0)) as stream:
            for run in read_runs(stream, **self._options(shard)):
                if run.offsets and run.offsets[-1] >= end:
                    yield from run.names[: bisect_left(run.offsets, end)]
                    return
                yield from run.names

    def _gatherer(self, shard: ShardItem, start: int, handler: Handler) -> Gatherer:
        path = shard.get("local_path") or stores.is_local(shard["url"]) or self._copy_of(shard["url"])
        return Gatherer(
            url=shard["url"],
            local_path=None if path is None else str(path),
            keys=self.keys,
            lcase=self.lcase,
            suffixes=self.suffixes,
            allow_split=self.allow_split,
            handler=handler,
            earlier=partial(self._names_before, shard, start) if start else tuple,
        )

    def _copy_of(self, url: str) -> str | None:
        """Return the path of the copy of this shard, if the opener keeps copies."""
        local_path = getattr(self.opener, "local_path", None)
        return None if local_path is None else local_path(url)


def _turns(shard: ShardItem, taken: int) -> slice:
    """Return which samples after the first `taken` are this reader's: all, or every `step`-th of a shared shard."""
    return slice((shard["first"] - taken) % shard["step"], None, shard["step"]) if "step" in shard else slice(None)


def read_shard(shard: ShardItem | str, **options: Any) -> Iterator[Sample]:
    """The samples of one shard; the options are those of `ReadSamples`.

    >>> next(read_shard("missing.tar", handler=lambda error: True), "nothing")
    'nothing'
    """
    return ReadSamples(**options)([shard])


def _without_offsets(run: Run) -> Run:
    return run._replace(offsets=[UNKNOWN] * len(run.offsets))


class _LinkWarning:
    """Warns about members that are links, once per shard: links carry no data."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._warned = False

    def __call__(self, header: Header, offset: int) -> None:
        if not self._warned:
            self._warned = True
            what = f"a link to {header.link}" if header.link else f"of the unknown type {header.kind!r}"
            warn(
                f"{redacted(self._url)}: member {header.name} at byte {offset} is {what}, carries no data and is left"
                " out – write the shard again with `tar --dereference --hard-dereference`",
                stacklevel=2,
            )
