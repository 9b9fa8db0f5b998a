"""The boxes of random, central and whole crops, as torchvision draws them."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

from webdataset.errors import FormatError

_TRIES = 10


class Box(NamedTuple):
    """A part of an image, in pixels.

    >>> Box(10, 20, 30, 40).snapped(8)
    Box(x=8, y=24, width=32, height=40)
    """

    x: int
    y: int
    width: int
    height: int

    def snapped(self, step: int) -> Box:
        """The box with its edges moved to the nearest multiples of `step`, which is no larger than it."""
        left, top, right, bottom = (
            (edge + step // 2) // step * step for edge in (self.x, self.y, self.x + self.width, self.y + self.height)
        )
        return Box(left, top, right - left, bottom - top)

    def divided(self, step: int) -> Box:
        """The same box in an image that is `step` times smaller."""
        return Box(*(value // step for value in self))


def random_box(
    width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float], rng: random.Random
) -> Box:
    """The box of torchvision's RandomResizedCrop: a random share of the area with a random ratio of the sides.

    >>> import random
    >>> random_box(640, 480, (0.08, 1.0), (3 / 4, 4 / 3), random.Random(0))
    Box(x=53, y=0, width=553, height=476)

    The ratio is drawn uniformly in its logarithm, ten times at most; then the largest central box of an allowed ratio.
    """
    area = width * height
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(_TRIES):
        target = area * rng.uniform(*scale)
        aspect = math.exp(rng.uniform(low, high))
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return Box(rng.randint(0, width - w), rng.randint(0, height - h), w, h)
    return _largest_box(width, height, ratio)


def random_window(width: int, height: int, size: tuple[int, int], rng: random.Random) -> Box:
    """The box of torchvision's RandomCrop: of the given (height, width), anywhere in the image.

    >>> import random
    >>> random_window(256, 256, (224, 224), random.Random(0))
    Box(x=24, y=26, width=224, height=224)
    """
    if width < size[1] or height < size[0]:
        raise FormatError(
            f"an image of {width} × {height} has no window of {size[1]} × {size[0]}",
            hint="use crop='random' or 'center', which resize",
        )
    return Box(rng.randint(0, width - size[1]), rng.randint(0, height - size[0]), size[1], size[0])


def _largest_box(width: int, height: int, ratio: tuple[float, float]) -> Box:
    w, h = width, height
    if width / height < ratio[0]:
        h = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        w = max(1, round(height * ratio[1]))
    return Box((width - w) // 2, (height - h) // 2, w, h)


def covering(width: int, height: int, least: tuple[int, int]) -> tuple[int, int]:
    """(height, width) of the image when it is just large enough to cover `least`, as torchvision's Resize computes it.

    >>> covering(500, 375, (256, 256))
    (256, 341)
    """
    if width * least[0] <= height * least[1]:
        return int(least[1] * height / width), least[1]
    return least[0], int(least[0] * width / height)


def central_box(width: int, height: int, size: tuple[int, int]) -> Box:
    """The box of torchvision's CenterCrop.

    >>> central_box(341, 256, (224, 224))
    Box(x=58, y=16, width=224, height=224)
    """
    return Box(round((width - size[1]) / 2), round((height - size[0]) / 2), size[1], size[0])
