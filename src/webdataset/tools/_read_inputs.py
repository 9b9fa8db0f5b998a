"""Input addresses → a stream of samples of bytes."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from webdataset import stores
from webdataset.address import Address, Birth, in_use
from webdataset.describe import counted
from webdataset.errors import SpecError, Where
from webdataset.flow import Stage
from webdataset.handlers import Handler, reraise_exception
from webdataset.index import read_description
from webdataset.pipeline import DataPipeline
from webdataset.plan import JOIN
from webdataset.samples import ReadSamples
from webdataset.shards import SimpleShardList, expand, expand_in_file

_log = logging.getLogger(__name__)

# A path that needs no expansion, such as the many of a long list.
_PLAIN = re.compile(r"[\w/.,+=@% -]+\.tar")

Sample = dict[str, Any]
Inputs = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def where_of(sample: Sample) -> Where:
    """The location of a sample, for an error about it."""
    return Where(key=sample["__key__"], shard=sample.get("__url__"))


class CountStage:
    """A stage that counts samples, and finds the fields, of those that a user named, that none of them has.

    >>> stage = CountStage(["jpg,png", "tyt"])
    >>> len(list(stage(iter([{"txt": b""}, {"png": b""}])))), stage.count, stage.lacking
    (2, 2, ('tyt',))

    Args:
        named: fields; `jpg,png` is one of several.
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        self.count = 0
        self.lacking = tuple(named)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            self.count += 1
            if self.lacking:
                self.lacking = tuple(name for name in self.lacking if sample.keys().isdisjoint(name.split(",")))
            yield sample


def warn_of_lacking(found: Iterable[tuple[int, Iterable[str]]]) -> None:
    """Log a warning for each field that a user named and no sample has: a misspelled name would change nothing.

    Args:
        found: for each part of the input, how many samples it has, and the fields that none of them has.
    """
    parts = [(count, set(lacking)) for count, lacking in found if count]
    for name in sorted(set.intersection(*(lacking for _, lacking in parts))) if parts else ():
        samples = counted(sum(count for count, _ in parts), "sample")
        _log.warning("none of %s has the field %s: check its name; `wds ls` lists the fields", samples, name)


def warning_of_lacking(named: Iterable[str], samples: Iterator[Sample]) -> Iterator[Sample]:
    """The same samples; after the last one, a warning is logged for each of these fields that none of them has."""
    stage = CountStage(named)
    yield from stage(samples)
    warn_of_lacking([(stage.count, stage.lacking)])


def input_specs(inputs: Inputs) -> list[str]:
    """The inputs of a user as a list of addresses."""
    return [stores.as_address(spec) for spec in _given(inputs)]


def _given(inputs: Inputs) -> Sequence[str | os.PathLike[str]]:
    return [inputs] if isinstance(inputs, str | os.PathLike) else inputs


def expand_inputs(inputs: Inputs) -> list[str]:
    """The shards that the inputs name: braces, globs, folders ending in `/`, descriptions ending in `.json`.

    >>> expand_inputs(["a-{0..1}.tar", "-"])
    ['a-0.tar', 'a-1.tar', '-']
    """
    found = []
    for spec in _given(inputs):
        url = stores.as_address(spec)
        if _PLAIN.fullmatch(url):
            found.append(url)
        elif url.endswith(".json"):
            found += _described(url)
        else:
            found += expand(spec if isinstance(spec, str) else [spec])
    if found.count("-") > 1:
        raise SpecError("standard input can be read once, and '-' is given twice", hint="give '-' once")
    if not found:
        raise SpecError("no input was given", hint="give at least one shard, or - for standard input")
    return in_use(found) if any(isinstance(url, Address) for url in found) else found


def _described(url: str) -> list[str]:
    description = read_description(url)
    if JOIN in description.extra:
        raise SpecError(
            "this description joins the fields of other shards, and a verb would read the shards without them",
            Where(shard=url),
            hint="write the joined shards: wds join --with OTHERS -o joined/ SHARDS",
        )
    return description.urls


def read_list(url: str) -> list[str]:
    r"""The lines of a text file that are neither empty nor comments.

    >>> with stores.open_write("memory://doc-tools/list") as stream:
    ...     _ = stream.write(b"# shards\na.tar\n\nb.tar\n")
    >>> read_list("memory://doc-tools/list")
    ['a.tar', 'b.tar']
    """
    data = stores.read_bytes(url)
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise SpecError("the list is not text", Where(shard=url, offset=error.start), hint="write UTF-8") from error
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def read_shard_list(url: str) -> list[str]:
    r"""The shards that a text file lists, as addresses that were read from data: no commands, no stored credentials.

    >>> with stores.open_write("memory://doc-tools/shards") as stream:
    ...     _ = stream.write(b"memory://doc-tools/{a,b}.tar\n")
    >>> read_shard_list("memory://doc-tools/shards")
    ['memory://doc-tools/a.tar', 'memory://doc-tools/b.tar']
    """
    return expand_in_file(read_list(url), url, paths=Birth.MAPPING)


def read_samples(
    urls: Sequence[str], stages: Sequence[Stage] = (), *, handler: Handler = reraise_exception, seed: int = 0
) -> Iterator[Sample]:
    """The samples of shards, one after the other, through stages.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-tools/r.tar", [{"__key__": "0", "txt": "hello"}])
    >>> [sample["txt"] for sample in read_samples([shard])]
    [b'hello']
    """
    pipeline = DataPipeline(SimpleShardList(list(urls)), ReadSamples(handler=handler), *stages)
    pipeline.seed = seed
    with closing(pipeline):
        yield from pipeline
