"""Transformations of samples, under the module name of wids 0.2.111."""

from __future__ import annotations

from typing import Any

from ._transforms import (
    Sample,
    decode_all_gz,
    decode_basic,
    decode_images_to_numpy,
    decode_images_to_pil,
    find_transformations,
)

__all__ = [
    "decode_all_gz",
    "decode_basic",
    "decode_images_to_numpy",
    "decode_images_to_pil",
    "default_decoder",
    "interpret_transformations",
]


def default_decoder(sample: Sample, format: Any = "PIL") -> Sample:  # noqa: A002 - its public name
    """Decode all fields; images to `format`, "PIL" or "numpy".

    >>> import io
    >>> default_decoder({".cls": io.BytesIO(b"3")})
    {'.cls': 3}
    """
    for transform in find_transformations(format):
        sample = transform(sample)
    return sample


interpret_transformations = find_transformations
