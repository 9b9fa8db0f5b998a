"""Arrays, tensors and PIL images → compressed images."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from webdataset.errors import EncodingError
from webdataset.optional import require

if TYPE_CHECKING:
    from PIL.Image import Image

_TOLERANCE = 1e-3  # how far floats may be outside of 0 … 1, as after interpolation


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """How a family of extensions is written: Pillow's name, the modes without loss, and the default options."""

    name: str
    modes: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


_COLOURS = ("L", "RGB", "RGBA")
_FORMATS = {
    "jpg jpeg jpe jfif img image": ImageFormat("JPEG", ("L", "RGB", "CMYK"), {"quality": 100}),
    "png": ImageFormat("PNG", (*_COLOURS, "LA", "1", "P", "I;16")),
    # As with JPEG: the best quality by default.
    "webp": ImageFormat("WEBP", _COLOURS, {"quality": 100}),
    "avif": ImageFormat("AVIF", _COLOURS, {"quality": 100, "subsampling": "4:4:4"}),
    "bmp dib": ImageFormat("BMP", (*_COLOURS, "1", "P")),
    "gif": ImageFormat("GIF", ("L", "1", "P", "RGB", "RGBA")),
    "ppm pnm": ImageFormat("PPM", ("1", "L", "RGB", "I;16")),
    "pgm": ImageFormat("PPM", ("L", "I;16")),
    "pbm": ImageFormat("PPM", ("1",)),
    "tif tiff": ImageFormat("TIFF", (*_COLOURS, "LA", "1", "P", "CMYK", "I;16", "F")),
    "tga": ImageFormat("TGA", (*_COLOURS, "LA", "1", "P")),
    "jp2 j2k": ImageFormat("JPEG2000", (*_COLOURS, "LA", "I;16")),
}
IMAGE_FORMATS: dict[str, ImageFormat] = {name: made for names, made in _FORMATS.items() for name in names.split()}


def imageencoder(image: Any, format: str = "PNG", **options: Any) -> bytes:  # noqa: A002 - the public name
    r"""A PIL image, an array (H×W, H×W×C) or a tensor (H×W, C×H×W) as an image file.

    >>> imageencoder(np.zeros((2, 2, 3), "u1"), "jpg", quality=90)[:3]
    b'\xff\xd8\xff'

    Floats between 0 and 1 are rounded to 8 bits, booleans become black and white, uint16 needs a format that holds it.

    Args:
        image: the image.
        format: an extension or Pillow's name of the format.
        options: passed to Pillow's `save` (`quality`, `lossless`, `compress_level`, …).
    """
    target = _find_format(format)
    picture = image if _is_picture(image) else _picture(np_image(image), target.name)
    picture = _to_supported_mode(picture, target, format)
    stream = io.BytesIO()
    try:
        picture.save(stream, format=target.name, **(target.options | options))
    except (OSError, TypeError, ValueError, KeyError, SystemError) as error:
        raise EncodingError(f"cannot be written as {target.name}: {error}") from error
    return stream.getvalue()


def _find_format(name: str) -> ImageFormat:
    found = IMAGE_FORMATS.get(name.lower())
    if found is None:
        found = next((each for each in IMAGE_FORMATS.values() if each.name == name.upper()), None)
    if found is None:
        raise EncodingError(f"unknown image format {name!r}", hint=f"use one of {', '.join(IMAGE_FORMATS)}")
    return found


def _is_picture(value: Any) -> bool:
    return hasattr(value, "getbands") and hasattr(value, "save")


def np_image(value: Any) -> np.ndarray[Any, Any]:
    """The pixels as uint8, uint16 or bool, H×W or H×W×C with two to four channels.

    >>> np_image(np.array([[0.0, 0.999]]))
    array([[  0, 255]], dtype=uint8)
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.permute(1, 2, 0) if value.ndim == 3 else value
        value = value.float() if value.is_floating_point() else value  # NumPy has no bfloat16
    if not hasattr(value, "__array__") and not hasattr(value, "__array_interface__"):
        raise EncodingError(
            f"expected an image, got {type(value).__name__}", hint="give an array, a tensor or a PIL image"
        )
    return _eight_bits(_image_shape(np.asarray(value)))


def _image_shape(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim not in {2, 3} or not array.size or (array.ndim == 3 and array.shape[2] not in {2, 3, 4}):
        raise EncodingError(
            f"an array of shape {array.shape} is not an image",
            hint="arrays are H×W or H×W×C with 1 to 4 channels, tensors H×W or C×H×W",
        )
    return array


def _eight_bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype in (np.uint8, np.uint16, np.bool_):
        return array
    if array.dtype.kind != "f":
        raise EncodingError(
            f"unsupported dtype of pixels: {array.dtype}", hint="use uint8, uint16, bool, or floats in 0…1"
        )
    low, high = array.min(), array.max()
    if not (low >= -_TOLERANCE and high <= 1 + _TOLERANCE):  # NaN fails every comparison
        raise EncodingError(f"float pixels must be between 0 and 1, got {low} to {high}")
    rounded: np.ndarray[Any, Any] = np.rint(np.clip(array, 0, 1).astype(np.float32) * 255)
    return rounded.astype(np.uint8)


def _picture(array: np.ndarray[Any, Any], target: str) -> Image:
    images = require("PIL.Image", extra="images", why="to encode images")
    if array.dtype == np.bool_ and (array.ndim == 3 or target == "JPEG"):
        array = array.astype(np.uint8) * np.uint8(255)
    if array.dtype == np.uint16 and array.ndim == 3:
        raise EncodingError("16-bit images with several channels cannot be written", hint="use 'npy', or one channel")
    return images.fromarray(np.ascontiguousarray(array))


def _to_supported_mode(picture: Image, target: ImageFormat, name: str) -> Image:
    """The image in a mode that the format supports, converted only without loss."""
    if picture.mode in target.modes:
        return picture
    wider = {"1": ("L", "RGB"), "L": ("RGB",), "LA": ("RGBA",), "P": ("RGBA", "RGB"), "I": ("I;16",)}
    for mode in wider.get(picture.mode, ()):
        if mode in target.modes:
            return picture.convert(mode)
    if target.modes == ("1",) and picture.mode == "L" and set(np.unique(np.asarray(picture)).tolist()) <= {0, 255}:
        return picture.convert("1")
    raise EncodingError(
        f"a {picture.mode} image cannot be written as {name!r}, which supports {', '.join(target.modes)}",
        hint="convert it first, or choose another extension",
    )
