"""Random numbers that belong to a sample, so that augmentations are the same for any number of threads and workers."""

from __future__ import annotations

import random
import threading
from typing import Any

from webdataset.address import Address
from webdataset.arguments import is_integer
from webdataset.errors import SpecError
from webdataset.flow import Drawn, digest
from webdataset.redact import redacted


class _Current(threading.local):
    """The (seed, epoch) of the stage whose function runs in this thread."""

    salt: tuple[int, int] = (0, 0)


current = _Current()


def rng(sample: Any, *salt: int | str) -> random.Random:
    """A generator that depends on the pass's seed and epoch and on this sample alone.

    >>> sample = {"__key__": "0001", "__url__": "a.tar"}
    >>> rng(sample).random() == rng(dict(sample)).random()
    True
    >>> rng(sample, "crop").random() == rng(sample, "flip").random()
    False

    Inside a function that a stage calls (`map`, `map_dict`, `select` …) seed and epoch are those of the running
    pipeline; anywhere else, and in stages that run outside a pipeline, they are 0 and 0. Every call starts the sample's
    sequence anew: keep the generator, or salt it, to draw different numbers in different places. A sample that comes
    twice in one epoch (resampling) has other numbers the second time: its `__url__` is numbered.

    Args:
        sample: a sample or shard item (its key and address count), or a string or integer that identifies one.
        salt: makes several generators of one sample different.
    """
    return random.Random(digest(*current.salt, *identity(sample), *salt))


def identity(sample: Any) -> tuple[int | str, ...]:
    """Return what identifies a sample.

    >>> identity({"__key__": "0001", "__url__": "a.tar", "cls": b"7"})
    ('0001', 'a.tar')
    """
    if isinstance(sample, str) or is_integer(sample):
        return (sample,)
    if isinstance(sample, dict):
        known = [sample[name] for name in ("__key__", "__url__") if name in sample]
        if not known and "url" in sample:  # a shard; samples may have a field of that name
            known = [sample["url"]]
        if known:
            names = (redacted(each) if isinstance(each, Address) else str(each) for each in known)
            return (*names, *(each.draw for each in known if isinstance(each, Drawn)))
    raise SpecError(
        f"rng() was given {_described(sample)}, which has no key",
        hint="call it before to_tuple(), or give it the sample's key: rng(key)",
    )


def _described(sample: Any) -> str:
    return f"a dict with {list(sample)}" if isinstance(sample, dict) else f"a {type(sample).__name__}"
