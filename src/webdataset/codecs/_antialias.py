"""What torch's antialiased `interpolate` makes of uint8 pixels, bit by bit, without torch.

torch resizes faster than anybody (150 µs a crop, this file 1,100 µs) but takes more than a second to import. So the
first crops of a process are made here, and who only looks at a few pictures never waits for it.

The arithmetic is that of Pillow, with weights of 16 bits: first along the rows, rounded to 8 bits, then along the
columns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ._require import find_package
from ._scratch_buffer import Scratch

Pixels = np.ndarray[Any, Any]

_scratch = (Scratch(), Scratch(), Scratch())
_MOST_BITS = 22
_TOO_LARGE = 1 << 15  # a weight is an int16


def resample(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """The image in another size (height, width), antialiased bilinear.

    >>> resample(np.array([[0, 50, 100, 150]], "u1"), (1, 2)).tolist()
    [[36, 114]]
    """
    height, width = pixels.shape[:2]
    image = pixels.reshape(height, width, -1)
    if width != size[1]:
        columns = _transposed(image)
        image = _transposed(_resample_rows(columns, size[1]))
    return _resample_rows(image, size[0]).reshape(*size, *pixels.shape[2:])


def _transposed(image: Pixels) -> Pixels:
    """With rows and columns exchanged: OpenCV needs 50 µs, NumPy 400 µs."""
    cv2 = find_package("cv2")
    if cv2 is None:
        return np.ascontiguousarray(image.transpose(1, 0, 2))
    turned: Pixels = cv2.transpose(image)
    return turned.reshape(image.shape[1], image.shape[0], -1)


def _resample_rows(image: Pixels, new: int) -> Pixels:
    old, *rest = image.shape
    if old == new:
        return image
    taps, flat = _taps(old, new), image.reshape(old, -1)
    wide, part, total = (
        _numbers(each, length, flat.shape[1]) for each, length in zip(_scratch, (old, new, new), strict=True)
    )
    wide[...] = flat
    total[...] = 1 << taps.bits - 1
    for rows, weights in zip(taps.rows, taps.weights, strict=True):
        wide.take(rows, axis=0, out=part, mode="clip")  # none is outside; the mode that needs no copy to find out
        part *= weights[:, None]
        total += part
    total >>= taps.bits
    return total.astype(np.uint8).reshape(new, *rest)  # weights are positive and make one: nothing to clip


def _numbers(scratch: Scratch, height: int, width: int) -> Pixels:
    return np.frombuffer(scratch.of(4 * height * width), np.int32, height * width).reshape(height, width)


class _Taps(NamedTuple):
    """Which old rows make a new one, and with what weights, in units of 2**-bits: a line of numbers for every tap."""

    rows: Pixels
    weights: Pixels
    bits: int


@lru_cache(maxsize=1024)
def _taps(old: int, new: int) -> _Taps:
    scale = old / new
    support = max(scale, 1.0)  # as far as a triangle reaches that covers two pixels of the smaller image
    centres = scale * (np.arange(new) + 0.5)
    first = np.maximum((centres - support + 0.5).astype(np.int64), 0)
    count = np.minimum((centres + support + 0.5).astype(np.int64), old) - first
    taps = np.arange(count.max())
    distance = (taps + first[:, None] - centres[:, None] + 0.5) * (1 / scale if scale >= 1 else 1.0)
    weights = np.where(taps < count[:, None], np.maximum(0, 1 - np.abs(distance)), 0)
    weights /= np.cumsum(weights, axis=1)[:, -1:]  # added one by one, as torch does: a sum would round otherwise
    bits = _bits(float(weights.max()))
    rows = np.minimum(first[:, None] + taps, old - 1)
    return _Taps(rows.T.copy(), (weights * (1 << bits) + 0.5).astype(np.int32).T.copy(), bits)


def _bits(largest: float) -> int:
    bits = 0
    while bits < _MOST_BITS and int(0.5 + largest * (1 << bits + 1)) < _TOO_LARGE:
        bits += 1
    return bits
