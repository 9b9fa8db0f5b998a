"""Shard lists described by a YAML file: several datasets, each with a number of shards per epoch."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webdataset import config
from webdataset.errors import MissingDependency, ObsoleteException, SpecError, UnsafeContent, Where
from webdataset.flow import Drawn, Pass, digest

from ._expand import expand_urls
from ._shard_list import SimpleShardList
from ._shard_source import ShardSource, Taken, describe

_TOP_KEYS = frozenset({"prefix", "datasets", "buckets"})
_DATASET_KEYS = frozenset({"buckets", "name", "shards", "resample", "choose"})


@dataclass
class MSSource:
    """One dataset of a spec: its shards, and how many of them an epoch takes.

    >>> MSSource("a", perepoch=2, urls=["x.tar", "y.tar", "z.tar"])
    MSSource(name='a', perepoch=2, resample=False, urls=['x.tar', 'y.tar', 'z.tar'])
    """

    name: str = ""
    perepoch: int = -1
    resample: bool = False
    urls: list[str] = field(default_factory=list)


@dataclass(repr=False, eq=False)  # not frozen: `set_epoch` is part of its interface
class MultiShardSample(ShardSource):
    """The shards of a YAML spec (or of the same thing as a dict), shuffled together.

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
        """Nothing taken yet."""
        return Taken(during, available=sum(len(source.urls) for source in self.sources))

    def run(self, items: Iterator[Any], at: Taken, /) -> Iterator[dict[str, Any]]:
        """This pass's shards behind the first `at.taken`."""
        for url in self._sample(at.during)[at.taken :]:
            yield at.hand_on(Drawn(url, at.taken))

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
    """The datasets of a spec, checked word by word.

    >>> list(parse_spec({"prefix": "s3://b/", "datasets": [{"buckets": ["t"], "shards": ["{0..1}.tar"]}]}))
    [MSSource(name='', perepoch=-1, resample=False, urls=['s3://b/t/0.tar', 's3://b/t/1.tar'])]
    """
    content = spec if isinstance(spec, Mapping) else _read(spec)
    _check_keys(content, _TOP_KEYS, "the spec")
    prefix = config.expand_path(content.get("prefix", ""))
    datasets = content.get("datasets")
    if not isinstance(datasets, list) or not datasets:
        raise SpecError("the spec has no list of datasets", hint="write datasets: [{shards: […]}, …]")
    for dataset in datasets:
        _check_keys(dataset, _DATASET_KEYS, "a dataset of the spec")
        buckets = dataset.get("buckets", content.get("buckets", [""]))
        buckets = [buckets] if isinstance(buckets, str) else buckets
        if len(buckets) != 1:
            raise SpecError(f"a dataset has {len(buckets)} buckets: {buckets}", hint="give exactly one")
        source = _source(dataset, prefix, config.expand_path(buckets[0]))
        if not isinstance(spec, Mapping):
            _refuse_commands(source.urls, os.fspath(spec))
        yield source


def _source(dataset: Mapping[str, Any], prefix: str, bucket: str) -> MSSource:
    shards = dataset.get("shards", [])
    names = expand_urls([config.expand_path(each) for each in ([shards] if isinstance(shards, str) else shards)])
    urls = [prefix + posixpath.join(bucket, name) for name in names]
    name = dataset.get("name", "")
    if not urls:
        raise SpecError(f"the dataset {name!r} of the spec has no shards", hint="write shards: [a-{000..009}.tar]")
    resample, choose = dataset.get("resample", -1), dataset.get("choose", -1)
    if resample >= 0 and choose >= 0:
        raise SpecError(f"the dataset {name!r} has both resample and choose", hint="say one of them")
    if choose > len(urls):
        raise SpecError(f"the dataset {name!r} has {len(urls)} shards and is asked for {choose}", hint="use resample")
    return MSSource(name=name, perepoch=max(resample, choose), resample=resample >= 0, urls=urls)


def _read(name: str | os.PathLike[str]) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise MissingDependency("yaml", extra="formats", why=f"to read {os.fspath(name)!r}") from error
    return yaml.safe_load(Path(name).read_text(encoding="utf-8"))


def _check_keys(content: Any, allowed: frozenset[str], what: str) -> None:
    if not isinstance(content, Mapping):
        raise SpecError(f"{what} is a {type(content).__name__}", hint="write a mapping")
    unknown = sorted(set(content) - allowed)
    if unknown:
        raise SpecError(f"{what} has unknown words: {', '.join(unknown)}", hint=f"known: {', '.join(sorted(allowed))}")


def _refuse_commands(urls: list[str], name: str) -> None:
    for url in urls:
        if url.lstrip().startswith("pipe:"):
            raise UnsafeContent(
                f"{url!r} in a spec file would run a command", Where(shard=name), hint="give it in code"
            )
