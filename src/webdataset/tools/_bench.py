"""`wds bench`: how fast this machine reads and decodes a dataset, and what the bottleneck is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from webdataset.loader import Stats, WebLoader
from webdataset.pipeline import WebDataset
from webdataset.samples import OWN_FIELDS

from ._read_inputs import Inputs, expand_inputs
from ._verb_options import Advance, advancing


@dataclass(frozen=True, slots=True)
class Pace:
    """The throughput of one measurement.

    Attributes:
        samples: how many samples came out.
        size: how many bytes of fields they had when they were read.
        seconds: how long it took.
        bottleneck: the slowest part, for which the others wait.
        advice: what to change.
        details: all parts, as a table.
    """

    samples: int
    size: int
    seconds: float
    bottleneck: str
    advice: str
    details: str

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds if self.seconds else 0.0

    @property
    def bandwidth(self) -> float:
        """Bytes of fields per second."""
        return self.size / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Bench:
    """Throughput of reading alone, and of reading and decoding.

    Attributes:
        shards: how many shards there are; as many of them were read as the time allowed.
        reading: reading alone.
        decoding: reading and decoding; None if it was not measured.
        workers: how many threads decoded.
    """

    shards: int
    reading: Pace
    decoding: Pace | None
    workers: int

    @property
    def bottleneck(self) -> str:
        """The slowest part on this machine."""
        return self.reading.bottleneck if self.decoding is None else self.decoding.bottleneck


def bench(
    inputs: Inputs,
    *,
    decode: Sequence[str] | None = ("rgb8",),
    workers: int = 2,
    seconds: float = 10.0,
    samples: int | None = None,
    advance: Advance | None = None,
) -> Bench:
    """Read a dataset as training would, first without and then with decoding.

    Args:
        inputs: shards.
        decode: what `WebDataset.decode` gets; None only reads.
        workers: how many threads decode.
        seconds: each measurement ends after about so many seconds.
        samples: … or after so many samples.
        advance: called with the number of samples.
    """
    urls = expand_inputs(inputs)
    pace = partial(_measure, seconds=seconds, samples=samples, advance=advance)
    reading = pace(_dataset(urls), 0)
    decoding = None if decode is None else pace(_dataset(urls).map(_with_size).decode(*decode, partial=True), workers)
    return Bench(len(urls), reading, decoding, workers)


def _dataset(urls: Sequence[str]) -> Any:
    return WebDataset(list(urls), shardshuffle=False, nodesplitter=None, index=False)


def _collate_nothing(sample: Any) -> Any:
    """Collate nothing: neither the conversion to tensors nor the import of torch is measured."""
    return sample


def _with_size(sample: dict[str, Any]) -> dict[str, Any]:
    """Record how many bytes a sample has before it is decoded."""
    return {**sample, "__size__": _size(sample)}


def _size(sample: dict[str, Any]) -> int:
    return sum(len(value) for name, value in sample.items() if name not in OWN_FIELDS)


def _measure(dataset: Any, workers: int, *, seconds: float, samples: int | None, advance: Advance | None) -> Pace:
    loader = WebLoader(dataset, batch_size=None, num_workers=workers, workers="threads", collate_fn=_collate_nothing)
    began, size, taken = time.perf_counter(), 0, 0
    items: Any = iter(loader)
    with dataset, closing(items):
        for sample in advancing(islice(items, samples), advance):
            size += sample["__size__"] if "__size__" in sample else _size(sample)
            taken += 1
            if time.perf_counter() - began >= seconds:
                break
        stats: Stats = loader.stats()
    return Pace(taken, size, time.perf_counter() - began, stats.bottleneck, stats.advice, str(stats))
