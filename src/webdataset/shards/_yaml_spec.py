"""Shard lists described by a YAML file: several datasets, each with a number of shards per epoch.

Addresses out of a file are marked as read from data: local files must be below the folder of the file or the current
directory, commands are refused, and environment variables with secrets are not substituted. A spec that is passed as
a dict is code.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from webdataset import config
from webdataset.address import MAX_SHARDS, in_use
from webdataset.errors import ObsoleteException, SpecError, WebDatasetError, Where
from webdataset.flow import Drawn, Pass, digest
from webdataset.optional import require
from webdataset.redact import hides_secrets

from ._expand import address_in_file, expand_urls
from ._shard_list import SimpleShardList
from ._shard_source import ShardSource, Taken, describe

_MOST_CHARACTERS = 10_000_000
_MOST_DIGITS = 20  # longer integers take quadratic time to build (1:1:1:… has the base 60), or as keys of one hash
_TOP_KEYS = frozenset({"prefix", "datasets", "buckets"})
_DATASET_KEYS = frozenset({"buckets", "name", "shards", "resample", "choose"})


@hides_secrets
@dataclass
class MSSource:
    """One dataset of a spec: its shards, and how many of them are used per epoch.

    >>> MSSource("a", perepoch=2, urls=["x.tar", "y.tar", "z.tar"])
    MSSource(name='a', perepoch=2, resample=False, urls=['x.tar', 'y.tar', 'z.tar'])
    """

    name: str = ""
    perepoch: int = -1
    resample: bool = False
    urls: list[str] = field(default_factory=list)


@dataclass(repr=False, eq=False)  # not frozen: `set_epoch` is part of its interface
class MultiShardSample(ShardSource):
    """The shards of a YAML spec (a file or a dict), shuffled together.

    >>> import os; os.environ["ALLOW_OBSOLETE"] = "1"
    >>> spec = {"datasets": [{"name": "a", "buckets": ["gs://b"], "shards": ["x-{0..2}.tar"], "choose": 2}]}
    >>> [shard["url"] for shard in MultiShardSample(spec)]
    ['gs://b/x-2.tar', 'gs://b/x-0.tar']
    >>> del os.environ["ALLOW_OBSOLETE"]
    """

    fname: str | os.PathLike[str] | Mapping[str, Any]
    sources: list[MSSource] = field(init=False, default_factory=list)
    seed: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not config.read("ALLOW_OBSOLETE"):
            raise ObsoleteException(
                "MultiShardSample is obsolete",
                hint="mix datasets with wds.mix or wds.RandomMix, or set ALLOW_OBSOLETE=1",
            )
        self.sources = list(parse_spec(self.fname))

    def __repr__(self) -> str:
        parts = ", ".join(f"{each.name}: {describe(each.urls)} x {each.perepoch}" for each in self.sources)
        return f"MultiShardSample({parts})"

    def set_epoch(self, seed: int) -> None:
        """Fix the order of all further passes."""
        self.seed = seed

    def start(self, during: Pass) -> Taken:
        """The start of a pass."""
        return Taken(during, available=sum(len(source.urls) for source in self.sources))

    def run(self, items: Iterator[Any], at: Taken, /) -> Iterator[dict[str, Any]]:
        """The shards of this pass after the first `at.taken`."""
        for url in self._sample(at.during)[at.taken :]:
            yield at.take(Drawn(url, at.taken))

    def _sample(self, during: Pass) -> list[str]:
        rng = during.rng("multi") if self.seed is None else during.rng("multi", digest(self.seed), seed=0)
        chosen: list[str] = []
        for source in self.sources:
            if source.resample:
                chosen += rng.choices(source.urls, k=source.perepoch)
            elif source.perepoch >= 0:
                chosen += rng.sample(source.urls, source.perepoch)
            else:
                chosen += source.urls
        rng.shuffle(chosen)
        return chosen


def shardspec(spec: Any) -> ShardSource:
    """A `.yaml` name is a spec of several datasets, anything else a list of shards.

    >>> shardspec("{0..1}.tar").urls
    ['0.tar', '1.tar']
    """
    if isinstance(spec, str | os.PathLike) and os.fspath(spec).endswith((".yaml", ".yml")):
        return MultiShardSample(spec)
    return SimpleShardList(spec)


def parse_spec(spec: str | os.PathLike[str] | Mapping[str, Any]) -> Iterator[MSSource]:
    """The datasets of a spec; unknown keys are errors.

    >>> list(parse_spec({"prefix": "s3://b/", "datasets": [{"buckets": ["t"], "shards": ["{0..1}.tar"]}]}))
    [MSSource(name='', perepoch=-1, resample=False, urls=['s3://b/t/0.tar', 's3://b/t/1.tar'])]
    """
    if isinstance(spec, Mapping):
        yield from _sources(spec)
        return
    try:
        for source in _sources(load_yaml(Path(spec).read_bytes(), f"to read {os.fspath(spec)!r}"), in_code=False):
            source.urls = in_use(address_in_file(url, os.fspath(spec)) for url in source.urls)
            yield source
    except (WebDatasetError, OSError):
        raise
    except Exception as error:  # of YAML, and of values of any type in it
        hint = "datasets: [{shards: [a-{000..009}.tar]}, …]"
        raise SpecError(f"the spec is damaged: {error}", Where(shard=os.fspath(spec)), hint=hint) from error


def _sources(content: Any, *, in_code: bool = True) -> Iterator[MSSource]:
    _check_keys(content, _TOP_KEYS, "the spec")
    prefix = config.expand_path(content.get("prefix", ""), secrets=in_code)
    datasets = content.get("datasets")
    if not isinstance(datasets, list) or not datasets:
        raise SpecError("the spec has no list of datasets", hint="write datasets: [{shards: […]}, …]")
    for dataset in datasets:
        _check_keys(dataset, _DATASET_KEYS, "a dataset of the spec")
        buckets = dataset.get("buckets", content.get("buckets", [""]))
        buckets = [buckets] if isinstance(buckets, str) else buckets
        if len(buckets) != 1:
            raise SpecError(f"expected one bucket per dataset, got {buckets}")
        yield _source(dataset, prefix, config.expand_path(buckets[0], secrets=in_code), in_code=in_code)


def _source(dataset: Mapping[str, Any], prefix: str, bucket: str, *, in_code: bool) -> MSSource:
    shards = dataset.get("shards", [])
    patterns = [shards] if isinstance(shards, str) else shards
    names = expand_urls([config.expand_path(each, secrets=in_code) for each in patterns])
    urls = [prefix + posixpath.join(bucket, name) for name in names]
    name = dataset.get("name", "")
    if not urls:
        raise SpecError(f"the dataset {name!r} of the spec has no shards", hint="write shards: [a-{000..009}.tar]")
    resample, choose = dataset.get("resample", -1), dataset.get("choose", -1)
    if not isinstance(resample, int) or not isinstance(choose, int) or resample > MAX_SHARDS:
        raise SpecError(
            f"the dataset {name!r} has resample {resample!r} and choose {choose!r}",
            hint=f"write whole numbers up to {MAX_SHARDS:,}",
        )
    if resample >= 0 and choose >= 0:
        raise SpecError(f"the dataset {name!r} has both resample and choose", hint="give one of them")
    if choose > len(urls):
        raise SpecError(f"the dataset {name!r} has {len(urls)} shards, and choose is {choose}", hint="use resample")
    return MSSource(name=name, perepoch=max(resample, choose), resample=resample >= 0, urls=urls)


def load_yaml(text: bytes, why: str) -> Any:
    r"""Return the content of a YAML file from an untrusted source: plain values, with a limit for expanded aliases.

    An alias costs three bytes, and stands for a list of aliases, each of which stands for a list of aliases.

    >>> load_yaml(b"a: &a [x, y]\nb: *a", "for this example")
    {'a': ['x', 'y'], 'b': ['x', 'y']}

    Args:
        text: the bytes of the file.
        why: what YAML is needed for, for the error if its package is not installed.
    """
    yaml = require("yaml", extra="formats", why=why)
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is not None and _written_out(node, {}) > _MOST_CHARACTERS:
            what = f"with its aliases written out, the file has more than {_MOST_CHARACTERS:,} characters"
            raise SpecError(what, hint="use fewer aliases")
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _written_out(node: Any, known: dict[int, int]) -> int:
    """Return about how many characters a part of a YAML file has when its aliases are expanded."""
    size = known.get(id(node))
    if size is None:
        known[id(node)] = _MOST_CHARACTERS + 1  # if it contains itself it is infinite
        value = node.value
        if node.tag.endswith(":int") and len(value) > _MOST_DIGITS:
            raise SpecError(
                f"an integer has {len(value):,} digits, at most {_MOST_DIGITS} are allowed", hint="quote it"
            )
        parts = [] if isinstance(value, str) else chain.from_iterable(value) if node.id == "mapping" else value
        size = known[id(node)] = len(value) + 1 + sum(_written_out(part, known) for part in parts)
    return size


def _check_keys(content: Any, allowed: frozenset[str], what: str) -> None:
    if not isinstance(content, Mapping):
        raise SpecError(f"expected a mapping for {what}, got {type(content).__name__}")
    unknown = sorted(set(content) - allowed)
    if unknown:
        raise SpecError(f"{what} has unknown keys: {', '.join(unknown)}", hint=f"known: {', '.join(sorted(allowed))}")
