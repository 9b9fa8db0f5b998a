"""Decode and crop in one step: pixels outside of the crop are not resized, and most of them not decoded."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from webdataset.arguments import in_order, is_integer, is_number
from webdataset.errors import SpecError
from webdataset.optional import require

from ._crop import Box, central_box, covering, random_box, random_window
from ._decode_pixels import as_float, other_pixels
from ._field_limit import check_size
from ._image_specs import IMAGE_EXTENSIONS, ends_with_one_of, find_imagespec
from ._jpeg import jpeg_size, upper_pixels
from ._resize import cut, flip, nearest, planes_of, resize, scaled

Pixels = np.ndarray[Any, Any]
Size = tuple[int, int]

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_USUAL_MARGIN = 256 / 224  # between the side that images are resized to and the side of the central crop


@dataclass(frozen=True)
class DecodeImage:
    """A decoder of images to one size: `decode("rgb8", size=224, crop="random", flip=True)`.

    >>> from webdataset.codecs import encode_field
    >>> photo = encode_field("jpg", np.zeros((375, 500, 3), "u1"))
    >>> DecodeImage("rgb8", size=224, crop="random", flip=True)(".jpg", photo).shape
    (224, 224, 3)
    >>> DecodeImage("torchrgb", size=224, crop="center", normalize="imagenet")(".jpg", photo).shape
    torch.Size([3, 224, 224])

    The crops are torchvision's: "random" is RandomResizedCrop, "window" is RandomCrop (a random place, no resizing),
    "center" is Resize to `resize` and CenterCrop, None is Resize (an integer size is the shorter side). Images that
    were recoded to their last size before the crop, as JPEG or as raw pixels (PPM), are cheapest with "window".
    Inside a pipeline the random generator belongs to the sample: the same seed and epoch give the same crop for any
    number of workers, and all images of a sample the same one.

    Args:
        imagespec: as for `ImageHandler`, without the "pil" and 16-bit ones.
        size: side, or (height, width).
        crop: "random", "window", "center" or None.
        flip: exchange left and right with this probability; True means 0.5.
        scale: share of the area that a random crop covers.
        ratio: width to height of a random crop.
        resize: shorter side before a central crop; by default 256 for 224, others in proportion. For a size that is not
            square, the image is made just large enough for the crop with the same margin.
        antialias: average over the pixels that fall into one, as torchvision does. Without it the crop is cheaper.
        interpolation: "bilinear", or "nearest" for masks.
        normalize: "imagenet" or (mean, std) per channel, for float specs.
        layout: "hwc" or "chw"; by default that of the spec.
        oversample: JPEGs are decoded at 1/2, 1/4 or 1/8 of their size as long as so many decoded pixels are left for
            each pixel of the result, in both directions; the edges of the box then are at the nearest multiples of 2, 4
            or 8. At 2 photographs differ by less than one grey level on average from the same box decoded in full,
            which None does.
        extensions: the endings of the names of fields that this decoder decodes: "png", or "seg.png".
    """

    imagespec: str = "rgb8"
    size: int | Size = 224
    crop: Literal["random", "window", "center"] | None = None
    flip: float = False
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    resize: int | None = None
    antialias: bool = True
    interpolation: Literal["bilinear", "nearest"] = "bilinear"
    normalize: Any = None
    layout: Literal["hwc", "chw"] | None = None
    oversample: float | None = 2.0
    extensions: Iterable[str] = tuple(IMAGE_EXTENSIONS)
    rng: Callable[..., random.Random] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        extensions = self.extensions.split() if isinstance(self.extensions, str) else self.extensions
        if hasattr(extensions, "__iter__"):
            object.__setattr__(self, "extensions", in_order(extensions))
        _check(self)
        object.__setattr__(self, "extensions", tuple(each.lower().lstrip(".") for each in self.extensions))
        # A list, as settings files have it, equals no shape.
        object.__setattr__(
            self, "size", tuple(map(int, self.size)) if hasattr(self.size, "__iter__") else int(self.size)
        )

    def bind(self, rng: Callable[..., random.Random]) -> DecodeImage:
        """The same decoder with `rng(sample, salt)` as its random generator."""
        return replace(self, rng=rng)

    def __call__(self, key: str, data: bytes) -> Any:
        """The image, or None if the field is not an image's."""
        return None if self.resolve(key) is None else self.decode(data)

    def resolve(self, key: str) -> Callable[[bytes], Any] | None:
        """The function that decodes fields of this name, or None."""
        return self.decode if ends_with_one_of(key, self.extensions) else None

    def for_sample(self, data: bytes, sample: dict[str, Any] | None) -> Any:
        """The image of a sample, cropped with the sample's own random generator."""
        if self.rng is None or not self._plan.random:
            return self.decode(data)
        known = sample is not None and "__key__" in sample
        # Salted: other users of `rng(sample)` would draw the same numbers as this crop otherwise.
        return self.decode(data, self.rng(sample if known else zlib.crc32(data), "decode_image"))

    def decode(self, data: bytes, rng: random.Random | None = None) -> Any:
        """The image in the bytes, cut, resized, flipped and converted."""
        plan = self._plan
        if plan.random and rng is None:
            rng = random.Random()
        pixels, box, size = self._decoded(data, rng)
        mirrored = rng is not None and plan.flip > 0 and rng.random() < plan.flip
        part = self._resized(cut(pixels, box), size, mirrored=mirrored)
        # A view would keep all pixels of the image.
        return self._converted(part.copy() if np.may_share_memory(part, pixels) else part)

    def _resized(self, part: Pixels, size: Size, *, mirrored: bool) -> Pixels:
        if self.interpolation == "bilinear" and self.crop != "center":
            return resize(part, size, antialias=self.antialias, mirrored=mirrored)
        part = resize(part, size, antialias=self.antialias) if self.interpolation == "bilinear" else nearest(part, size)
        if self.crop == "center":
            part = cut(part, central_box(size[1], size[0], self._plan.size))
        return flip(part) if mirrored else part

    def _decoded(self, data: bytes, rng: random.Random | None) -> tuple[Pixels, Box, Size]:
        """(pixels, at full size or less, the box to cut out of them, the size to resize it to)."""
        mode = self._plan.mode
        known = jpeg_size(data, mode)
        if known is None:
            pixels = other_pixels(data, mode)
            return pixels, *self._geometry(pixels.shape[1], pixels.shape[0], rng)
        box, size = self._geometry(*known, rng)
        step = self._step(box, size)
        snapped = box.snapped(step)
        rows = snapped.y + snapped.height
        decoded = upper_pixels(data, mode, step=step, size=known, rows=rows)
        if decoded is None:
            return other_pixels(data, mode), box, size
        return decoded, snapped.divided(step), size

    def _geometry(self, width: int, height: int, rng: random.Random | None) -> tuple[Box, Size]:
        """(the box to cut out of the image, the size to resize it to)."""
        whole = Box(0, 0, width, height)
        if self.crop == "random":
            assert rng is not None
            return random_box(width, height, self.scale, self.ratio, rng), self._plan.size
        if self.crop == "window":
            assert rng is not None
            return random_window(width, height, self._plan.size, rng), self._plan.size
        if self.crop == "center":
            size = covering(width, height, self._plan.before_crop)
        elif isinstance(self.size, int):
            size = covering(width, height, self._plan.size)
        else:
            return whole, self._plan.size
        check_size(math.prod(size) * len(self._plan.mode))  # a row of n pixels becomes 224 rows of 224 n
        return whole, size

    def _step(self, box: Box, size: Size) -> int:
        if self.oversample is None or self.interpolation == "nearest":
            return 1
        spare = min(box.height / size[0], box.width / size[1]) / self.oversample
        return 8 if spare >= 8 else 4 if spare >= 4 else 2 if spare >= 2 else 1

    def _converted(self, pixels: Pixels) -> Any:
        plan = self._plan
        pixels = planes_of(pixels) if plan.layout == "chw" else np.ascontiguousarray(pixels)
        # NumPy's arithmetic even for tensors: as fast as torch's (35 µs for 224 × 224 in planes), and without torch's
        # own threads, which spin while other images are decoded on their cores (up to 20 ms an image, measured).
        if plan.factor is not None:
            pixels = scaled(pixels, plan.factor, plan.offset)
        elif plan.floats:
            pixels = as_float(pixels)
        if not plan.torch:
            return pixels
        return require("torch", extra="torch", why="to decode images to tensors").from_numpy(pixels)

    @cached_property
    def _plan(self) -> _Plan:
        return _Plan(self)


class _Plan:
    """Values that depend on the options alone, computed once."""

    def __init__(self, options: DecodeImage) -> None:
        container, kind, mode = find_imagespec(options.imagespec)
        self.mode, self.torch, self.floats = mode.upper(), container == "torch", kind == "float"
        self.layout = options.layout or ("chw" if self.torch else "hwc")
        self.size = (options.size, options.size) if isinstance(options.size, int) else options.size
        margin = options.resize / min(self.size) if options.resize else _USUAL_MARGIN
        self.before_crop = round(self.size[0] * margin), round(self.size[1] * margin)
        self.flip = 0.5 if options.flip is True else float(options.flip)
        self.random = options.crop in {"random", "window"} or self.flip > 0
        self.factor, self.offset = _normalizing(options.normalize, len(mode), self.layout)


def _normalizing(normalize: Any, channels: int, layout: str) -> tuple[Any, Any]:
    if normalize is None:
        return None, None
    mean, std = _mean_and_std(normalize, channels)
    shape = (channels, 1, 1) if layout == "chw" and channels > 1 else (channels,) if channels > 1 else ()
    made = [each.astype(np.float32).reshape(shape) for each in (1 / (255 * std), -mean / std)]
    return made[0], made[1]


def _mean_and_std(normalize: Any, channels: int) -> tuple[Pixels, Pixels]:
    pair = IMAGENET if isinstance(normalize, str) and normalize == "imagenet" else normalize
    mean, std = (np.broadcast_to(np.asarray(each, np.float64), (channels,)) for each in pair)
    return mean, std


def _check(options: DecodeImage) -> None:
    container, kind, mode = find_imagespec(options.imagespec)
    sides = tuple(options.size) if isinstance(options.size, tuple | list) else (options.size, options.size)
    # In this order: later checks rely on types that earlier ones have checked.
    problems: dict[str, Callable[[], bool]] = {
        "PIL images and 16-bit images cannot be resized here; use 'rgb8' or 'torchrgb'": lambda: (
            container == "pil" or kind == "uint16"
        ),
        "size is a side or (height, width), in pixels": lambda: len(sides) != 2 or not all(map(_is_side, sides)),
        "crop is 'random', 'window', 'center' or None": lambda: (
            options.crop not in ("random", "window", "center", None)
        ),
        "flip is a probability": lambda: (
            not isinstance(options.flip, bool) and not (is_number(options.flip) and 0 <= options.flip <= 1)
        ),
        "scale is a share of the area, 0 < low ≤ high ≤ 1": lambda: (
            not _is_range(options.scale) or options.scale[1] > 1
        ),
        "ratio is width to height, 0 < low ≤ high": lambda: not _is_range(options.ratio),
        "resize is a side for crop='center', not smaller than the crop": lambda: (
            options.resize is not None
            and (options.crop != "center" or not _is_side(options.resize) or options.resize < max(sides))
        ),
        "interpolation is 'bilinear' or 'nearest'": lambda: options.interpolation not in ("bilinear", "nearest"),
        "layout is 'hwc', 'chw' or None": lambda: options.layout not in ("hwc", "chw", None),
        "normalize needs a float spec such as 'rgb'": lambda: options.normalize is not None and kind != "float",
        "normalize is 'imagenet' or (mean, std), a number or one for each channel": lambda: (
            options.normalize is not None and not _is_normalization(options.normalize, len(mode))
        ),
        "oversample is at least 1, or None": lambda: (
            options.oversample is not None and not (is_number(options.oversample) and options.oversample >= 1)
        ),
        "extensions are names such as 'jpg'": lambda: (
            not isinstance(options.extensions, tuple) or not all(isinstance(each, str) for each in options.extensions)
        ),
    }
    for problem, is_found in problems.items():
        if is_found():
            raise SpecError(f"decode_image({options.imagespec!r}, …): {problem}")


def _is_side(value: Any) -> bool:
    return is_integer(value) and bool(value > 0)


def _is_range(pair: Any) -> bool:
    pairs = isinstance(pair, tuple | list) and len(pair) == 2 and all(map(is_number, pair))
    return pairs and 0 < pair[0] <= pair[1] < math.inf


def _is_normalization(normalize: Any, channels: int) -> bool:
    try:
        mean, std = _mean_and_std(normalize, channels)
    except (TypeError, ValueError):
        return False
    return bool(np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all())


decode_image = DecodeImage
