"""Tar shards → datasets of Hugging Face's `datasets`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from webdataset import shards
from webdataset.codecs import AUDIO_EXTENSIONS, IMAGE_EXTENSIONS
from webdataset.errors import FormatError, Where
from webdataset.samples import read_shard

from ._field_mapping import INTEGERS, KEY, TEXTS, FieldMapping, Pair, extension_of
from ._from_hugging_face import require_datasets
from ._record_format import Record

_LOOK_AT = 100


def to_hf(urls: Any, *, features: Any = None, streaming: bool = True) -> Any:
    """Tar shards as a Hugging Face dataset.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://docs/hf.tar", [{"__key__": "a", "txt": "a cat", "cls": 0}])
    >>> list(to_hf(shard))
    [{'__key__': 'a', 'cls': 0, 'txt': 'a cat'}]

    Images and sounds become `Image()` and `Audio()`, numbers `int64`, text and JSON `string`, and everything else
    `binary`. A field that a sample lacks is None; one that is not among the features is an error. Streaming datasets
    are split by shard among nodes and workers, and have `state_dict`.

    Args:
        urls: shards, as `WebDataset` takes them.
        features: `datasets.Features`; by default those of the first 100 samples.
        streaming: an `IterableDataset` that reads the shards; False copies them into a `Dataset`.
    """
    datasets = require_datasets()
    files = shards.expand(urls)
    known = datasets.Features(features) if features is not None else _features(files, datasets)
    kind = datasets.IterableDataset if streaming else datasets.Dataset
    options = {} if streaming else {"keep_in_memory": False}
    return kind.from_generator(_samples, features=known, gen_kwargs={"urls": files, "fields": tuple(known)}, **options)


def _features(urls: list[str], datasets: Any) -> Any:
    first = islice(chain.from_iterable(map(read_shard, urls)), _LOOK_AT)
    names = dict.fromkeys(name for sample in first for name in sample if name[:2] != "__")
    return datasets.Features({KEY: datasets.Value("string"), **{name: _feature(name, datasets) for name in names}})


def _feature(name: str, datasets: Any) -> Any:
    extension = extension_of(name)
    if extension in IMAGE_EXTENSIONS:
        return datasets.Image()
    if extension in AUDIO_EXTENSIONS:
        return datasets.Audio()
    if extension in INTEGERS:
        return datasets.Value("int64")
    return datasets.Value("string" if extension in TEXTS or extension == "json" else "binary")


def _samples(urls: list[str], fields: tuple[str, ...]) -> Iterator[Record]:
    mapping = FieldMapping(tuple(Pair(name, name) for name in (*fields, KEY)))
    for url in urls:
        for sample in read_shard(url):
            unknown = sorted(name for name in sample if name[:2] != "__" and name not in fields)
            if unknown:
                raise FormatError(
                    f"the field {unknown[0]} is not among the features",
                    Where(key=sample[KEY], shard=url),
                    hint="name all fields with to_hf(features=...)",
                )
            row = mapping.sample(sample, sample[KEY], decode=True)
            yield {name: _value(name, row.get(name), sample[KEY]) for name in fields}


def _value(name: str, value: Any, key: str) -> Any:
    extension = extension_of(name)
    if value is not None and (extension in IMAGE_EXTENSIONS or extension in AUDIO_EXTENSIONS):
        return {"bytes": value, "path": f"{key}.{name}"}
    return str(value, "utf-8") if extension == "json" and isinstance(value, bytes) else value
