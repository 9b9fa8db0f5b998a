"""Transformations of samples whose fields have dots and hold streams: `{".txt": BytesIO(b"…")}`.

Each takes a sample and returns one; fields that it does not decode stay streams. They can be chained in any order, and
several may be applied to a sample.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from webdataset.arguments import require_callable
from webdataset.codecs import IMAGE_EXTENSIONS, Decoder, gunzip, open_image
from webdataset.errors import DecodingError, MissingDependency, SpecError

Sample = dict[str, Any]
Transformation = Callable[[Sample], Sample]

_GZIP = b"\x1f\x8b"
_BASIC = Decoder([], pre=[])


def decode_all_gz(sample: Sample) -> Sample:
    """Unpack every `.gz` field; its name stays.

    >>> import gzip
    >>> decode_all_gz({".txt.gz": io.BytesIO(gzip.compress(b"hello"))})[".txt.gz"].read()
    b'hello'
    """
    return _decode_fields(sample, _unpacked)


def decode_basic(sample: Sample) -> Sample:
    """Decode text, numbers, JSON, arrays, tensors and the like by the ending; images stay.

    >>> decode_basic({".cls": io.BytesIO(b"3"), ".json": io.BytesIO(b"[1]"), "__key__": "0"})
    {'.cls': 3, '.json': [1], '__key__': '0'}
    """
    return _decode_fields(sample, _basic)


def decode_images_to_pil(sample: Sample) -> Sample:
    """Decode images to Pillow images, in the mode that they are stored in.

    >>> sorted(decode_images_to_pil({".txt": io.BytesIO(b"no picture")}))
    ['.txt']
    """
    return _decode_fields(sample, _picture)


def decode_images_to_numpy(sample: Sample) -> Sample:
    """Decode images to arrays of the depth and the channels that they are stored in.

    >>> sorted(decode_images_to_numpy({".txt": io.BytesIO(b"no picture")}))
    ['.txt']
    """
    return _decode_fields(sample, _pixels)


def find_transformations(wanted: Any) -> list[Transformation]:
    """Functions for any form of `transformations` that a user may give.

    >>> len(find_transformations("PIL")), find_transformations(None)
    (3, [])
    """
    if wanted is None:
        return []
    if isinstance(wanted, str):
        named = {"pil": decode_images_to_pil, "numpy": decode_images_to_numpy}
        if wanted.lower() not in named:
            raise SpecError(f'transformations={wanted!r}: expected "PIL", "numpy", or functions of a sample')
        return [decode_all_gz, decode_basic, named[wanted.lower()]]
    listed = [wanted] if callable(wanted) else list(wanted)
    for each in listed:
        require_callable("transformations", function=each)
    return listed


def _decode_fields(sample: Sample, decode: Callable[[str, bytes], Any]) -> Sample:
    """A new sample; `decode` returns None for fields that stay as they are."""
    result = {}
    for field, value in sample.items():
        decoded = None
        if field.startswith(".") and isinstance(value, io.BytesIO):
            try:
                decoded = decode(_plain_name(field, value), value.getvalue())
            except MissingDependency:
                raise
            except Exception as error:
                what = f"cannot decode {field!r}: {type(error).__name__}: {error}"
                raise DecodingError(sample.get("__shard__"), sample.get("__key__"), field, sample, what=what) from error
        result[field] = value if decoded is None else decoded
    return result


def _plain_name(field: str, value: io.BytesIO) -> str:
    """The name that determines the type: without the dot, and without the `.gz` of a field that was unpacked."""
    packed = field.endswith(".gz") and value.getbuffer()[:2] == _GZIP
    return field[1:] if packed else field[1:].removesuffix(".gz")


def _unpacked(name: str, data: bytes) -> io.BytesIO | None:
    return io.BytesIO(gunzip(data)) if name.endswith(".gz") else None


def _basic(name: str, data: bytes) -> Any:
    value = _BASIC.decode({name: data})[name]
    return None if value is data else value


def _picture(name: str, data: bytes) -> Any:
    if name.rpartition(".")[2].lower() not in IMAGE_EXTENSIONS:
        return None
    image = open_image(data)
    image.load()
    return image


def _pixels(name: str, data: bytes) -> Any:
    import numpy as np

    image = _picture(name, data)
    return None if image is None else np.asarray(image)
