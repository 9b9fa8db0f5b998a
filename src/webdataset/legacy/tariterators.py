"""`webdataset.tariterators`: from shards to samples, step by step.

Programs replace one of these steps by their own function, by passing it on or by assigning to the name in this module;
`tarfile_samples` and `tarfile_to_samples` use the current functions. If none was replaced, they read in one step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain
from typing import Any

from webdataset import config
from webdataset.errors import WebDatasetError, add_where
from webdataset.flow import EndOfStreamError
from webdataset.handlers import Handler, reraise_exception
from webdataset.samples import Gathered, Gatherer, ReadSamples, choose
from webdataset.samples import split_name as base_plus_ext
from webdataset.shards import SimpleShardList
from webdataset.stages import FilterFunction
from webdataset.stores import gopen, is_local
from webdataset.tar import Run, read_members

__all__ = [
    "base_plus_ext",
    "group_by_keys",
    "meta_prefix",
    "meta_suffix",
    "reraise_exception",
    "shardlist",
    "tar_file_expander",
    "tar_file_iterator",
    "tarfile_samples",
    "tarfile_to_samples",
    "trace",
    "url_opener",
    "valid_sample",
]

Sample = dict[str, Any]

trace = False
"""Accepted and unused; see the logger `webdataset`."""
meta_prefix = "__"
meta_suffix = "__"
_META = "__[^/]*__($|/)"


class EndOfShard(dict[str, Any]):
    """An empty dict that can be recording for a member's name and data.

    >>> end = EndOfShard()
    >>> end == {}, bool(end), end["fname"], end["data"]
    (True, False, '', b'')

    Args:
        broken: the shard could not be read to its end, so its last sample is incomplete.
    """

    def __init__(self, *, broken: bool = False) -> None:
        super().__init__()
        self.broken = broken

    def __missing__(self, key: str) -> Any:
        return {"fname": "", "data": b""}[key]


def shardlist(urls: Any, *, shuffle: bool = False) -> Iterator[Sample]:
    """Shards of a spec, one after the other.

    >>> list(shardlist("a-{0..1}.tar"))
    [{'url': 'a-0.tar'}, {'url': 'a-1.tar'}]
    """
    yield from SimpleShardList(urls, seed=True if shuffle else None)


def valid_sample(sample: Any) -> bool:
    """Whether a sample has entries and is not marked as bad.

    >>> valid_sample({"txt": b""}), valid_sample({}), valid_sample({"txt": b"", "__bad__": True})
    (True, False, False)
    """
    return isinstance(sample, dict) and len(sample) > 0 and not sample.get("__bad__", False)


def url_opener(data: Iterable[Sample], handler: Handler = reraise_exception, **kw: Any) -> Iterator[Sample]:
    r"""Add an open `stream` to every shard.

    >>> [shard["stream"].read() for shard in url_opener([{"url": "pipe:echo hello"}])]
    [b'hello\n']
    """
    for item in data:
        shard = item if isinstance(item, dict) else {"url": item}
        try:
            shard["stream"] = gopen(shard["url"], **kw)
            path = is_local(shard["url"])
        except Exception as error:
            if handler(error):
                continue
            return
        if path is not None:
            shard.setdefault("local_path", path)
        yield shard


def tar_file_iterator(
    fileobj: Any,
    skip_meta: str | None = _META,
    handler: Handler = reraise_exception,
    select_files: Any = None,
    rename_files: Callable[[str], str] | None = None,
) -> Generator[Sample, None, None]:
    r"""The files of an archive as dicts with `fname` and `data`.

    >>> list(tar_file_iterator(b"\0" * 1024))
    []
    """
    try:
        wanted, limit = _wanted(skip_meta, select_files, rename_files), config.read("WDS_DECOMPRESS_LIMIT")
        for member in read_members(fileobj, rename=wanted, limit=limit):
            yield {"fname": member.name, "data": member.data}
    except Exception as error:
        handler(error)  # its result has no effect: nothing can be read after the failure
    finally:
        getattr(fileobj, "close", lambda: None)()


def _wanted(
    skip_meta: str | None, select_files: Any, rename_files: Callable[[str], str] | None
) -> Callable[[str], str | None] | None:
    chosen = choose(select_files, rename_files)
    if skip_meta is None:
        return chosen
    meta = re.compile(skip_meta)

    def wanted(name: str) -> str | None:
        if meta.match(name):
            return None
        return name if chosen is None else chosen(name)

    return wanted


def tar_file_expander(
    data: Iterable[Sample],
    handler: Handler = reraise_exception,
    select_files: Any = None,
    rename_files: Callable[[str], str] | None = None,
    eof_value: Any = EndOfShard(),  # noqa: B008  # never changed
) -> Iterator[Sample]:
    r"""The files of all shards, with `__url__`; an empty dict follows the files of each shard.

    >>> list(tar_file_expander([{"url": "empty.tar", "stream": b"\0" * 1024}]))
    [{}]

    `eof_value` comes after the files of every shard, also of one that failed; None leaves it out.
    """
    for shard in data:
        recording = _RecordingHandler(handler, shard["url"])
        about = {"__url__": shard["url"]}
        if "local_path" in shard:
            about["__local_path__"] = shard["local_path"]
        with closing(tar_file_iterator(shard["stream"], _META, recording, select_files, rename_files)) as files:
            for file in files:
                yield {**file, **about}
        if eof_value is not None:
            yield EndOfShard(broken=True) if recording.failed and eof_value == {} else eof_value
        if recording.stop:
            return


class _RecordingHandler:
    """A handler that calls another one and stores its result."""

    def __init__(self, handler: Handler, url: str) -> None:
        self._handler = handler
        self._url = url
        self.failed = self.stop = False

    def __call__(self, error: Exception) -> bool:
        if isinstance(error, WebDatasetError):
            add_where(error, shard=self._url)
        self.failed = True
        self.stop = not self._handler(error)
        return True


def group_by_keys(
    data: Iterable[Sample],
    keys: Callable[[str], tuple[str | None, str | None]] = base_plus_ext,
    lcase: bool = True,
    suffixes: Collection[str] | None = None,
    handler: Handler = reraise_exception,
) -> Iterator[Sample]:
    """Files that follow each other and share a key, as one sample.

    >>> files = [{"fname": "1.txt", "data": b"a", "__url__": "u"}, {"fname": "1.cls", "data": b"0", "__url__": "u"}]
    >>> list(group_by_keys(files))
    [{'__key__': '1', '__url__': 'u', 'txt': b'a', 'cls': b'0'}]
    """
    url: Any = None
    gatherer: Gatherer | None = None
    failed: list[Exception] = []  # no name for it: the traceback has this frame, and open shards would wait for the gc
    ended = False
    for file in chain(data, [EndOfShard()]):
        finished = Gathered([], [])
        try:
            if gatherer is not None and (not file or file.get("__url__") != url):
                if not getattr(file, "broken", False):  # else its last sample may lack files
                    gatherer.finish(finished)
                gatherer = None
            if file:
                if gatherer is None:
                    url, path = file.get("__url__"), file.get("__local_path__")
                    gatherer = Gatherer(
                        url=url, local_path=path, keys=keys, lcase=lcase, suffixes=suffixes, handler=handler
                    )
                gatherer.feed(Run(0, True, file["data"], [file["fname"]], [0], [0], [len(file["data"])]), finished)
        except EndOfStreamError:
            ended = True
        except Exception as error:  # the handler was called already; finished samples are yielded first
            failed.append(error)
        yield from filter(valid_sample, finished.samples)
        if ended:
            return
        if failed:
            raise failed.pop()


_STEPS = (url_opener, tar_file_expander, group_by_keys)


def _replaced() -> bool:
    """Whether a program has put a function of its own in the place of a step."""
    return (url_opener, tar_file_expander, group_by_keys) != _STEPS


def tarfile_samples(
    src: Iterable[Sample],
    handler: Handler = reraise_exception,
    select_files: Any = None,
    rename_files: Callable[[str], str] | None = None,
) -> Iterator[Sample]:
    """The samples of shards; a stage as it is.

    >>> list(tarfile_samples([]))
    []
    """
    if not _replaced():
        return ReadSamples(handler=handler, select_files=select_files, rename_files=rename_files)(src)
    streams = url_opener(src, handler=handler)
    files = tar_file_expander(streams, handler=handler, select_files=select_files, rename_files=rename_files)
    return group_by_keys(files, handler=handler)


def tarfile_to_samples(
    handler: Handler = reraise_exception,
    select_files: Any = None,
    rename_files: Callable[[str], str] | None = None,
) -> Any:
    """The stage from shards to samples.

    >>> tarfile_to_samples(select_files="*.jpg")
    ReadSamples(select_files='*.jpg')
    """
    if _replaced():
        return FilterFunction(tarfile_samples, handler, select_files, rename_files)
    return ReadSamples(handler=handler, select_files=select_files, rename_files=rename_files)
