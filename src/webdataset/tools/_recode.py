"""`recode`: images of another size, quality or format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from webdataset.arguments import require_choice
from webdataset.codecs import IMAGE_EXTENSIONS, IMAGE_FORMATS, encode_field, imageencoder, open_image
from webdataset.errors import DecodingError, MissingDependency, SpecError, WebDatasetError

from ._read_inputs import Inputs, Sample
from ._report import SAMPLE_ERRORS, Report, settle_failure
from ._run_stages import transform
from ._verb_options import DEFAULTS, Options

RAW = "ppm"  # pixels after a header of a few bytes: the fastest image to read
_LOSSY = {"jpg", "jpeg", "webp", "avif"}


@dataclass(frozen=True)
class Recoding:
    """A stage that resizes, crops and encodes images again.

    >>> from webdataset.codecs import encode_field
    >>> import numpy
    >>> photo = encode_field("png", numpy.zeros((40, 60, 3), "u1"))
    >>> [sorted(sample) for sample in Recoding(short=20, format="jpg")(iter([{"__key__": "a", "png": photo}]))]
    [['__key__', 'jpg']]

    Images are turned upright by their EXIF data, which is then left out. An image that is small enough and of the right
    format already is kept byte for byte, unless a quality is given. Images are never enlarged.

    Attributes:
        fields: which fields; by default those named like an image format (`jpg`, not `mask.png`).
        short: the shorter side, at most.
        longest: the longer side, at most.
        crop: cut the centre to a square of so many pixels after resizing.
        format: extension of the new images; `raw` is `ppm`, `npy` an array; None keeps the format.
        quality: 1 to 100, for formats that lose something.
        failed: what to do if an image cannot be decoded: "stop", "skip" its sample, or "keep" it as it is.
    """

    fields: tuple[str, ...] = ()
    short: int | None = None
    longest: int | None = None
    crop: int | None = None
    format: str | None = None
    quality: int | None = None
    failed: str = "stop"

    def __post_init__(self) -> None:
        require_choice("failed", self.failed, SAMPLE_ERRORS)
        if self.format is not None:
            require_choice("format", self.format, (*IMAGE_FORMATS, "raw", "npy"))
        for name in ("short", "longest", "crop"):
            side = getattr(self, name)
            if side is not None and side < 1:
                raise SpecError(f"{name}={side} is not the side of an image", hint="use a number of pixels")
        if self.quality is not None and not 1 <= self.quality <= 100:
            raise SpecError(f"quality={self.quality} is not known", hint="use a number from 1 to 100")
        if not any((self.short, self.longest, self.crop, self.format, self.quality)):
            raise SpecError("no change is given", hint="give --short, --long, --crop, --format or --quality")

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The samples with new images: this is a stage."""
        for sample in samples:
            try:
                made = [self._recoded(sample)]
            except WebDatasetError as error:
                made = settle_failure(sample, error, self.failed)
            yield from made

    def _recoded(self, sample: Sample) -> Sample:
        made: Sample = {}
        for field, data in sample.items():
            if not self._is_wanted(field):
                made[field] = data
                continue
            name, changed = self._image(field, data)
            if name in made or (name != field and name in sample):
                raise SpecError(f"the image {field!r} would replace {name!r}", hint="choose one with --field")
            made[name] = changed
        return made

    def _is_wanted(self, field: str) -> bool:
        return field in self.fields if self.fields else field in IMAGE_EXTENSIONS

    def _image(self, field: str, data: bytes) -> tuple[str, bytes]:
        stem, dot, old = field.rpartition(".")
        new = {"raw": RAW, None: old}.get(self.format, self.format) or old
        picture = _opened(field, data)
        resized = self._resized(_upright(picture))
        if resized.size == picture.size and new == old and self.quality is None:
            return field, data
        name = f"{stem}{dot}{new}"
        if new == "npy":
            import numpy as np

            return name, bytes(encode_field(name, np.asarray(resized.convert("RGB"))))
        options = {"quality": self.quality} if self.quality is not None and new in _LOSSY else {}
        return name, imageencoder(resized, new, **options)

    def _resized(self, picture: Any) -> Any:
        width, height = picture.size
        scale = 1.0
        if self.short is not None:
            scale = min(scale, self.short / min(width, height))
        if self.longest is not None:
            scale = min(scale, self.longest / max(width, height))
        if scale < 1:
            picture = picture.resize((max(1, round(width * scale)), max(1, round(height * scale))))
        if self.crop is not None:
            width, height = picture.size
            side_x, side_y = min(width, self.crop), min(height, self.crop)
            left, top = (width - side_x) // 2, (height - side_y) // 2
            picture = picture.crop((left, top, left + side_x, top + side_y))
        return picture


def _opened(field: str, data: bytes) -> Any:
    try:
        picture = open_image(data)
        picture.load()
    except MissingDependency:
        raise
    except Exception as error:  # Pillow's plugins raise exceptions of any class for damaged data
        raise DecodingError(k=field, what=f"the image cannot be decoded: {error}") from error
    return picture


def _upright(picture: Any) -> Any:
    from PIL import ImageOps

    turned = ImageOps.exif_transpose(picture)
    return turned.convert("RGB") if turned.mode == "P" else turned  # a palette cannot be resized


def recode(
    inputs: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    fields: Sequence[str] = (),
    short: int | None = None,
    longest: int | None = None,
    crop: int | None = None,
    format: str | None = None,  # noqa: A002 - the name of the option
    quality: int | None = None,
    failed: str = "stop",
) -> Report:
    """Write the samples with images of another size, quality or format.

    Args:
        inputs: shards.
        output: one archive, a series, or a folder: one output for each input, in parallel.
        options: how to write and run.
        fields: see `Recoding`, as all that follow.
        short: the shorter side, at most.
        longest: the longer side, at most.
        crop: the side of the central square.
        format: extension of the new images.
        quality: 1 to 100.
        failed: "stop", "skip" or "keep".
    """
    recoding = Recoding(tuple(fields), short, longest, crop, format, quality, failed)
    return transform([recoding], inputs, output, options, job=f"recode {recoding}", named=recoding.fields)
