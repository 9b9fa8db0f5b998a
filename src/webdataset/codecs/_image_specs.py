"""Image specs ("rgb8", "torchrgb", "pil", …) and the handler that decodes fields to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from webdataset.arguments import in_order
from webdataset.errors import SpecError
from webdataset.optional import require

from ._decode_pixels import as_float, deep_pixels, is_deep, open_image, over, pillow_pixels
from ._jpeg import jpeg_pixels
from ._opencv import plain_pixels

if TYPE_CHECKING:
    from PIL.Image import Image

# Still images only: no containers (h5, fits, grib), no video (mpg, fli), nothing that needs a program (eps).
IMAGE_EXTENSIONS = [
    *("apng", "avif", "bmp", "bw", "cur", "dcx", "dds", "dib", "gif", "icb"),
    *("icns", "ico", "image", "img", "j2c", "j2k", "jfif", "jp2", "jpc", "jpe"),
    *("jpeg", "jpf", "jpg", "jpx", "pbm", "pcx", "pgm", "png", "pnm", "ppm"),
    *("psd", "qoi", "ras", "rgb", "rgba", "sgi", "tga", "tif", "tiff", "vda"),
    *("vst", "webp", "xbm", "xpm"),
]

imagespecs: dict[str, tuple[str, str | None, str]] = {
    **{mode: ("numpy", "float", mode) for mode in ("l", "rgb", "rgba")},
    **{f"{mode}8": ("numpy", "uint8", mode) for mode in ("l", "rgb", "rgba")},
    **{f"torch{mode}": ("torch", "float", mode) for mode in ("l", "rgb", "rgba")},
    **{f"torch{mode}8": ("torch", "uint8", mode) for mode in ("l", "rgb", "rgba")},
    **{f"pil{mode}": ("pil", None, mode) for mode in ("l", "rgb", "rgba")},
    "l16": ("numpy", "uint16", "l"),
    "torchl16": ("torch", "uint16", "l"),
    "torch": ("torch", "float", "rgb"),
    "rgbtorch": ("torch", "float", "rgb"),
    "pil": ("pil", None, "rgb"),
}


def find_imagespec(spec: str) -> tuple[str, str | None, str]:
    """Container, number type and mode of an image spec, in any case.

    >>> find_imagespec("TorchRGB")
    ('torch', 'float', 'rgb')
    """
    found = imagespecs.get(spec.lower()) if isinstance(spec, str) else None
    if found is None:
        raise SpecError(f"Unknown imagespec: {spec}", hint=f"choose one of {', '.join(imagespecs)}")
    return found


@dataclass(frozen=True)
class ImageHandler:
    """A decoder of image fields; `decode("rgb8")` means `decode(ImageHandler("rgb8"))`.

    >>> from webdataset.codecs import encode_field
    >>> handler = ImageHandler("rgb8")
    >>> handler(".png", encode_field("png", np.full((2, 2, 3), 7, "u1"))).shape
    (2, 2, 3)
    >>> handler(".txt", b"not mine") is None
    True

    Floats are between 0 and 1; torch images are C×H×W. 16-bit grey images keep their depth in the float specs and in
    "l16", and are scaled, not clipped, in the 8-bit ones.

    Args:
        imagespec: a key of `imagespecs`, in any case.
        extensions: the endings of the names of fields that this handler decodes: "png", or "seg.png".
        background: a colour ("white", (255, 255, 255)) behind transparent images; by default the alpha channel is
            dropped where the spec has none, as Pillow does.
        orient: apply the EXIF orientation of the image; by default pixels stay as they are stored.
    """

    imagespec: str
    extensions: Iterable[str] = tuple(IMAGE_EXTENSIONS)
    background: Any = None
    orient: bool = False

    def __post_init__(self) -> None:
        find_imagespec(self.imagespec)
        if isinstance(self.extensions, str):
            object.__setattr__(self, "extensions", self.extensions.split())
        object.__setattr__(self, "extensions", tuple(each.lower().lstrip(".") for each in in_order(self.extensions)))

    def __call__(self, key: str, data: bytes) -> Any:
        """The image, or None if the field is not an image's."""
        decode = self.resolve(key)
        return None if decode is None else decode(data)

    def resolve(self, key: str) -> Callable[[bytes], Any] | None:
        """The function that decodes fields of this name, or None."""
        return self.decode if ends_with_one_of(key, self.extensions) else None

    def decode(self, data: bytes) -> Any:
        """The image in the bytes."""
        container, kind, mode = find_imagespec(self.imagespec)
        if container == "pil":
            return self._picture(data, mode.upper())
        array = self._array(data, kind, mode.upper())
        return as_tensor(array) if container == "torch" else array

    def _array(self, data: bytes, kind: str | None, mode: str) -> np.ndarray[Any, Any]:
        if kind != "uint16" and not self.orient:
            pixels = jpeg_pixels(data, mode)
            pixels = plain_pixels(data, mode) if pixels is None else pixels
            if pixels is not None:
                return as_float(pixels) if kind == "float" else pixels
        image = self._open(data)
        if kind == "uint16":
            return deep_pixels(image)
        if kind == "float" and is_deep(image):
            grey = as_float(deep_pixels(image), 65535)
            return grey if mode == "L" else np.dstack([grey] * 3 + [np.ones_like(grey)] * (mode == "RGBA"))
        pixels = pillow_pixels(image, mode)
        return as_float(pixels) if kind == "float" else pixels

    def _picture(self, data: bytes, mode: str) -> Image:
        image = self._open(data)
        if is_deep(image):
            images = require("PIL.Image", extra="images", why="to decode images")
            return images.fromarray(pillow_pixels(image, mode))
        image.load()
        return image.convert(mode)

    def _open(self, data: bytes) -> Image:
        image = open_image(data)
        if self.orient:
            turned = require("PIL.ImageOps", extra="images", why="to turn images").exif_transpose(image)
            image = image if turned is None else turned
        return image if self.background is None else over(image, self.background)


def ends_with_one_of(key: str, extensions: Iterable[str]) -> bool:
    """Whether a field's name ends with one of these, which may have several parts.

    >>> ends_with_one_of(".left.seg.PNG", ["seg.png"]), ends_with_one_of(".png", ["seg.png"])
    (True, False)
    """
    return f".{key.lower()}".endswith(tuple(f".{each}" for each in extensions))


def as_tensor(array: np.ndarray[Any, Any]) -> Any:
    """An H×W or H×W×C array as an H×W or C×H×W tensor.

    >>> as_tensor(np.zeros((2, 3, 4), "u1")).shape
    torch.Size([4, 2, 3])
    """
    torch = require("torch", extra="torch", why="to decode images to tensors")
    tensor = torch.from_numpy(array)
    return tensor if array.ndim == 2 else tensor.permute(2, 0, 1).contiguous()


def imagehandler(imagespec: str, extensions: Iterable[str] = tuple(IMAGE_EXTENSIONS), **options: Any) -> ImageHandler:
    """The handler that decodes images to a spec.

    >>> imagehandler("torchrgb", ["jpg", "png"])
    ImageHandler(imagespec='torchrgb', extensions=('jpg', 'png'), background=None, orient=False)
    """
    return ImageHandler(imagespec, extensions, **options)
