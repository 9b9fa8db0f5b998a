"""The usual pipeline over shards, from the options of a command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webdataset.pipeline import DataPipeline, WebDataset


def shard_pipeline(
    urls: Sequence[str],
    *,
    batch: int = 0,
    decode: str | None = None,
    fields: Sequence[str] = (),
    **options: Any,
) -> DataPipeline:
    """The usual pipeline over shards.

    Args:
        urls: of shards that have an index.
        batch: samples in a batch; 0 serves samples.
        decode: how images are decoded, such as "rgb"; "" decodes everything but images.
        fields: the fields of a sample, in this order.
        options: what `WebDataset` takes.
    """
    dataset: Any = WebDataset(list(urls), **options)
    if decode is not None:
        dataset = dataset.decode(decode) if decode else dataset.decode()
    if fields:
        dataset = dataset.to_tuple(*fields)
    result: DataPipeline = dataset.batched(batch) if batch else dataset
    return result
