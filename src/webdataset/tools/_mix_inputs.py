"""`mix`: several datasets as one, by weights."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from webdataset import stores
from webdataset.arguments import require_choice
from webdataset.errors import FormatError, MissingDependency, SpecError, Where
from webdataset.pipeline import DataPipeline, RandomMix
from webdataset.pipeline import mix as mix_by_shares
from webdataset.redact import hides_secrets
from webdataset.samples import ReadSamples
from webdataset.shards import SimpleShardList, expand_in_file, load_yaml

from ._cat import numbered_keys
from ._output_target import parse_stream
from ._read_inputs import CountStage, Inputs, Sample, expand_inputs
from ._report import Report
from ._verb_options import DEFAULTS, Options
from ._write_samples import write_samples

_EXHAUSTED = {"first": "stop", "all": "drop", "never": "repeat"}


@hides_secrets
@dataclass(frozen=True)
class MixSource:
    """One dataset of a mix: its shards, in any form, and its weight."""

    inputs: Inputs
    weight: float = 1.0


def parse_mix_source(text: str) -> MixSource:
    """A dataset and its weight, `2*a-{000..009}.tar`.

    >>> parse_mix_source("2*a.tar"), parse_mix_source("b.tar")
    (MixSource(inputs='a.tar', weight=2.0), MixSource(inputs='b.tar', weight=1.0))
    """
    weight, star, rest = text.partition("*")
    try:
        return MixSource(rest, float(weight)) if star and rest else MixSource(text)
    except ValueError:
        return MixSource(text)  # a glob


def read_mix_sources(url: str) -> list[MixSource]:
    r"""The datasets of a YAML file: `sources:`, each with `shards` and maybe a `weight`.

    >>> with stores.open_write("memory://doc-mix/spec") as stream:
    ...     _ = stream.write(b"sources:\n- shards: memory://doc-mix/a.tar\n  weight: 2\n")
    >>> read_mix_sources("memory://doc-mix/spec")
    [MixSource(inputs=['memory://doc-mix/a.tar'], weight=2.0)]

    Its addresses were read from data, so it may come from anywhere: `expand_in_file` says what they may name.
    """
    data = stores.read_bytes(url)
    try:
        spec = load_yaml(data, "to read a YAML file")
        named = [(str(source["shards"]), float(source.get("weight", 1))) for source in spec["sources"]]
    except MissingDependency:
        raise
    except Exception as error:  # of YAML, and of values of any type in it
        raise FormatError(
            "the file does not list datasets", Where(shard=url), hint="sources: [{shards: a.tar, weight: 2}]"
        ) from error
    return [MixSource(expand_in_file([shards], url), weight) for shards, weight in named]


def mix(
    sources: Sequence[MixSource],
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    stop: str = "first",
    random: bool = False,
    samples: int | None = None,
    rekey: str | None = None,
) -> Report:
    """Write several datasets as one.

    >>> from webdataset.testing import make_shard
    >>> a = make_shard("memory://doc-mix/a.tar", [{"__key__": f"a{i}", "cls": i} for i in range(9)])
    >>> b = make_shard("memory://doc-mix/b.tar", [{"__key__": f"b{i}", "cls": i} for i in range(9)])
    >>> mix([MixSource(a, 2), MixSource(b)], "memory://doc-mix/c.tar").samples_out
    14

    Args:
        sources: the datasets and their weights.
        output: one archive, or a series.
        options: how to write.
        stop: the mix ends with the "first" dataset that ends, with "all" of them, or "never" (each begins again).
        random: draw at random by the weights, decided by the seed; otherwise every run of samples has the exact shares.
        samples: end after so many samples.
        rekey: number the keys in this format.
    """
    require_choice("stop", stop, _EXHAUSTED)
    if stop == "never" and samples is None:
        raise SpecError("a mix that never stops needs a number of samples", hint="give --samples")
    target, counter = parse_stream(output), CountStage()
    stream = counter(_mixed(sources, stop, options.seed, samples, random=random))
    if rekey is not None:
        stream = numbered_keys(rekey)(stream)
    return replace(write_samples(stream, target, options), samples_in=counter.count)


def _mixed(
    sources: Sequence[MixSource], stop: str, seed: int, samples: int | None, *, random: bool
) -> Iterator[Sample]:
    datasets = [DataPipeline(SimpleShardList(expand_inputs(source.inputs)), ReadSamples()) for source in sources]
    weights = [source.weight for source in sources]
    mixed: Any
    if random:
        if stop == "never":
            raise SpecError("a random mix stops with the first or with all datasets", hint="leave out --random")
        mixed = RandomMix(datasets, weights, longest=stop == "all", seed=seed)
    else:
        mixed = mix_by_shares(list(zip(datasets, weights, strict=True)), exhausted=_EXHAUSTED[stop])
    with closing(mixed):
        yield from islice(mixed, samples)
