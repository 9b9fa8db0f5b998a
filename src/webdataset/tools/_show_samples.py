"""`wds show`: samples in readable form: text as text, pictures as small pictures, all with their sizes."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from webdataset.codecs import IMAGE_EXTENSIONS, decode_field
from webdataset.errors import FormatError, WebDatasetError
from webdataset.redact import hides_secrets
from webdataset.samples import OWN_FIELDS

from ._expression import READABLE, decode_plain
from ._get_field import find_samples
from ._read_inputs import Inputs, Sample, expand_inputs, read_samples, warning_of_lacking, where_of


@dataclass(frozen=True, slots=True)
class ShownField:
    """One field.

    Attributes:
        name: the field's name.
        size: its size in bytes.
        text: its value in words: text itself, shape and type of arrays, the size of pictures, else the first bytes.
        picture: pixels of a small version of a picture, as rows of (red, green, blue).
    """

    name: str
    size: int
    text: str
    picture: Any = None


@hides_secrets
@dataclass(frozen=True, slots=True)
class ShownSample:
    """One sample."""

    key: str
    shard: str
    fields: tuple[ShownField, ...]


def show_samples(
    inputs: Inputs,
    *,
    count: int | None = 1,
    keys: Collection[str] = (),
    fields: Collection[str] | None = None,
    width: int = 60,
) -> Iterator[ShownSample]:
    """Samples in readable form.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-show/a.tar", [{"__key__": "0", "txt": "hello"}])
    >>> next(show_samples(shard)).fields
    (ShownField(name='txt', size=5, text='hello', picture=None),)

    Args:
        inputs: shards, or a description.
        count: so many from the beginning; None shows all.
        keys: these samples, found through the index, instead of the first.
        fields: only these fields.
        width: pictures are at most so many pixels wide.
    """
    samples = find_samples(inputs, keys) if keys else islice(read_samples(expand_inputs(inputs)), count)
    for sample in warning_of_lacking(fields or (), samples):
        yield _shown(sample, fields, width)


def _shown(sample: Sample, fields: Collection[str] | None, width: int) -> ShownSample:
    names = [name for name in sample if name not in OWN_FIELDS and (fields is None or name in fields)]
    shown = tuple(_field(name, sample[name], width) for name in names)
    return ShownSample(sample["__key__"], str(sample.get("__url__", "")), shown)


def _field(name: str, data: bytes, width: int) -> ShownField:
    kind = name.rpartition(".")[2]
    if kind in IMAGE_EXTENSIONS:
        return _picture(name, data, width)
    if kind in READABLE:
        return ShownField(name, len(data), data.decode("utf-8", "backslashreplace"))
    try:
        return ShownField(name, len(data), _words(decode_field(name, data)))
    except (WebDatasetError, ImportError) as error:
        return ShownField(name, len(data), f"{_words(data)} ({getattr(error, 'what', error)})")


def _picture(name: str, data: bytes, width: int) -> ShownField:
    try:
        pixels = decode_field(name, data, "rgb8")
    except (WebDatasetError, ImportError) as error:
        return ShownField(name, len(data), str(getattr(error, "what", error)))
    height, full = pixels.shape[:2]
    return ShownField(name, len(data), f"picture of {full} x {height}", _shrunk(pixels, width))


def _shrunk(pixels: Any, width: int) -> Any:
    """A picture at most `width` wide: the mean of each block of pixels."""
    import numpy as np

    height, full = pixels.shape[:2]
    columns = min(width, full)
    rows = max(1, round(height * columns / full))
    at_y = np.linspace(0, height, rows + 1).astype(int)[:-1]
    at_x = np.linspace(0, full, columns + 1).astype(int)[:-1]
    sums = np.add.reduceat(np.add.reduceat(pixels[..., :3].astype(np.uint32), at_y, axis=0), at_x, axis=1)
    counts = np.diff(np.append(at_y, height))[:, None, None] * np.diff(np.append(at_x, full))[None, :, None]
    return (sums // counts).astype(np.uint8)


def _words(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"array of {tuple(value.shape)} {value.dtype}"
    if isinstance(value, bytes):
        return f"{value[:16].hex(' ')}{' …' if len(value) > 16 else ''}"
    return repr(value)


def field_rows(
    inputs: Inputs, fields: Sequence[str] | None = None, *, count: int | None = None
) -> Iterator[dict[str, Any]]:
    """One row per sample: `__key__` and values: JSON is parsed, text and numbers are as they are, the rest in base64.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-rows/a.tar", [{"__key__": "0", "txt": "a", "json": {"b": 1}, "bin": b"c"}])
    >>> list(field_rows(shard))
    [{'__key__': '0', 'bin': 'Yw==', 'json': {'b': 1}, 'txt': 'a'}]
    >>> list(field_rows(shard, ["caption;txt"]))
    [{'__key__': '0', 'txt': 'a'}]

    Args:
        inputs: shards.
        fields: which fields; `a;b` is the first of them that a sample has. By default all.
        count: at most so many samples.
    """
    for sample in islice(read_samples(expand_inputs(inputs)), count):
        names = [name for name in sample if name not in OWN_FIELDS] if fields is None else _chosen(sample, fields)
        yield {"__key__": sample["__key__"], **{name: _plain(name, sample) for name in names}}


def _chosen(sample: Sample, fields: Sequence[str]) -> list[str]:
    found = []
    for choice in fields:
        name = next((name for name in choice.split(";") if name in sample), None)
        if name is None:
            raise FormatError(
                f"the sample has no field {choice!r}",
                where_of(sample),
                hint="`wds select --field NAME` takes those that have it",
            )
        found.append(name)
    return found


def _plain(name: str, sample: Sample) -> Any:
    try:
        value = decode_plain(name, sample[name])
    except ValueError as error:
        raise FormatError(f"the field {name!r} cannot be decoded: {error}", where_of(sample)) from error
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
