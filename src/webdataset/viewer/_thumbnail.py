"""Pictures of a bounded size from images, the first frame of a video, and arrays. Decompression bombs are errors."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from webdataset.codecs import open_image, open_media
from webdataset.errors import DecodingError, FormatError, WebDatasetError
from webdataset.index import SeekableRange
from webdataset.mutex import Mutex
from webdataset.optional import require

# An image with more pixels is not decoded; 100 million are 300 MB in memory.
MOST_PIXELS = 100_000_000
# A larger field is not fetched for a picture.
MOST_BYTES = 64_000_000
_FRAMES_TRIED = 30
_quiet = Mutex()  # filters of warnings belong to the whole process


def check_fetch(size: int) -> None:
    """Raise an error for a field that is too large to be fetched as a whole.

    >>> check_fetch(2_000_000_000)
    Traceback (most recent call last):
    webdataset.errors.FormatError: the field has 2,000,000,000 bytes and is not fetched to be shown – download it ...
    """
    if size > MOST_BYTES:
        raise FormatError(f"the field has {size:,} bytes and is not fetched to be shown", hint="download it instead")


def undecodable(what: str) -> DecodingError:
    """The error for a field that cannot be decoded."""
    return DecodingError(what=what, hint="run `wds check` on the shard")


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Turn every exception of a decoder inside the block into one error.

    >>> with decoding("the image"):
    ...     raise SyntaxError("broken chunk")
    Traceback (most recent call last):
    webdataset.errors.DecodingError: the image cannot be decoded: broken chunk – run `wds check` on the shard
    """
    try:
        yield
    except WebDatasetError:
        raise
    except Exception as error:
        raise undecodable(f"{what} cannot be decoded: {error}") from error


def image_size(data: bytes) -> tuple[int, int]:
    """Width and height of an image, from its header."""
    with _opened(data) as image:
        size: tuple[int, int] = image.size
    return size


def shrink_image(data: bytes, edge: int) -> tuple[bytes, str]:
    """An image that fits into a square, and its media type. Only as many pixels as needed are decoded."""
    with _opened(data) as image, decoding("the image"):
        image.draft("RGB", (edge, edge))
        return _encoded(image, edge)


def checked_image(data: bytes) -> bytes:
    """The bytes of an image that a browser may decode; an error if it has too many pixels."""
    image_size(data)
    return data


def first_frame(file: SeekableRange, edge: int) -> tuple[bytes, str]:
    """The first frame of a video; only the parts of the file that it needs are read."""
    with decoding("the film"), open_media(io.BufferedReader(file, 1 << 18), "to show films") as container:
        stream = container.streams.video[0]
        if stream.width * stream.height > MOST_PIXELS:
            raise _too_many_pixels(stream.width, stream.height)
        for tried, frame in enumerate(container.decode(stream)):
            if frame.width or tried > _FRAMES_TRIED:
                return _encoded(frame.to_image(), edge)
    raise undecodable("the film has no frame")


def array_picture(array: Any, edge: int) -> tuple[bytes, str] | None:
    """A picture of an array that looks like an image (height x width, with or without channels), else None.

    >>> import numpy as np
    >>> array_picture(np.zeros((4, 5)), 16)[1], array_picture(np.zeros(5), 16)
    ('image/png', None)
    """
    import numpy as np

    pil = _pil()
    pixels = as_pixels(np.asarray(array))
    return None if pixels is None else _encoded(pil.fromarray(pixels), edge, lossless=True)


def as_pixels(array: Any) -> Any:
    """An array as pixels: channels last, its values scaled to 0 to 255; None if it cannot be an image."""
    import numpy as np

    if array.ndim == 3 and array.shape[0] in {1, 3, 4} and array.shape[2] not in {1, 3, 4}:
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim not in {2, 3} or (array.ndim == 3 and array.shape[2] not in {3, 4}):
        return None
    if not array.size or min(array.shape[:2]) < 2 or array.size > MOST_PIXELS or array.dtype.kind not in "biuf":
        return None
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    values = np.nan_to_num(array.astype(np.float32))
    low, high = float(values.min()), float(values.max())
    if array.dtype.kind == "f" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    return np.ascontiguousarray(((values - low) * (255 / ((high - low) or 1))).astype(np.uint8))


def _encoded(image: Any, edge: int, *, lossless: bool = False) -> tuple[bytes, str]:
    if image.mode not in {"RGB", "RGBA", "L"}:
        has_alpha = image.mode in {"LA", "PA"} or "transparency" in image.info
        wide = image.mode.startswith("I;16")  # 16 bits a pixel: the high byte
        image = image.point(lambda value: value / 256).convert("L") if wide else image
        image = image.convert("RGBA" if has_alpha else "RGB") if not wide else image
    image.thumbnail((edge, edge))
    stream = io.BytesIO()
    if lossless or image.mode == "RGBA":
        image.save(stream, "PNG", compress_level=3)
        return stream.getvalue(), "image/png"
    image.save(stream, "JPEG", quality=82)
    return stream.getvalue(), "image/jpeg"


def _opened(data: bytes) -> Any:
    pil = _pil()
    with decoding("the image"), _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the limit below replaces Pillow's
        try:
            image = open_image(data)
        except pil.DecompressionBombError as error:
            what = f"the image has more than {MOST_PIXELS:,} pixels and is not decoded"
            raise FormatError(what, hint="download it instead") from error
        except pil.UnidentifiedImageError as error:
            raise undecodable("this is not an image, or of an unknown format") from error
    if image.width * image.height > MOST_PIXELS:
        image.close()
        raise _too_many_pixels(image.width, image.height)
    return image


def _too_many_pixels(width: int, height: int) -> FormatError:
    return FormatError(
        f"the image has {width:,} x {height:,} pixels and is not decoded: {MOST_PIXELS:,} are the limit",
        hint="download it instead",
    )


def _pil() -> Any:
    return require("PIL.Image", extra="images", why="to show images")
