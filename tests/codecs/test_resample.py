"""Antialiased resizing against torch, bit by bit."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from webdataset.codecs import _antialias, _resize
from webdataset.codecs._antialias import resample

SIDES = st.integers(1, 300)


def torchs(pixels, size):
    batch = np.ascontiguousarray(pixels).reshape(1, *pixels.shape[:2], -1)
    planes = torch.from_numpy(batch).permute(0, 3, 1, 2)
    made = torch.nn.functional.interpolate(planes, size, mode="bilinear", antialias=True)
    return made[0].permute(1, 2, 0).numpy().reshape(*size, *pixels.shape[2:])


same_arithmetic = pytest.mark.skipif(not _resize._SAME_ARITHMETIC, reason="torch rounds otherwise on this machine")


@same_arithmetic
@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from([(), (3,), (4,)]), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_it_is_what_torch_makes(height, width, new_height, new_width, channels, seed):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (height, width, *channels), dtype=np.uint8)
    if seed % 4 == 0:
        pixels[pixels < 128], pixels[pixels >= 128] = 0, 255  # the largest steps
    size = (new_height, new_width)
    assert np.array_equal(resample(pixels, size), torchs(pixels, size))


@same_arithmetic
@pytest.mark.parametrize(("height", "width"), [(375, 500), (224, 224), (1, 1), (3000, 20), (101, 1999)])
def test_it_is_what_torch_makes_of_photographs(height, width):
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    assert np.array_equal(resample(pixels, (224, 224)), torchs(pixels, (224, 224)))


def test_white_stays_white():
    for side in range(1, 200, 7):
        assert resample(np.full((side, 90, 3), 255, "u1"), (50, 60)).min() == 255


def test_without_opencv_it_is_the_same(monkeypatch):
    pixels = np.random.default_rng(1).integers(0, 256, (90, 70, 3), dtype=np.uint8)
    expected = resample(pixels, (40, 50))
    monkeypatch.setattr(_antialias, "find_package", lambda name: None)
    assert np.array_equal(resample(pixels, (40, 50)), expected)


FRESH = """
import sys, random, hashlib
import numpy as np
from webdataset.codecs import DecodeImage, _resize
photo = b"P6 90 70 255 " + np.random.default_rng(2).integers(0, 256, 90 * 70 * 3, dtype="u1").tobytes()
decoder, sums = DecodeImage("rgb8", size=32, crop="random", flip=True), []
for number in range(_resize._EARLY + 1):
    late = "torch" in sys.modules
    pixels = decoder.decode(photo, random.Random(number % 8))
    sums.append(hashlib.sha256(pixels.tobytes()).hexdigest())
    assert not late
assert "torch" in sys.modules
assert sums[-1] == sums[_resize._EARLY % 8], "the same crop by torch"
again = [hashlib.sha256(decoder.decode(photo, random.Random(n)).tobytes()).hexdigest() for n in range(8)]
assert again == sums[:8]
"""


@same_arithmetic
def test_the_first_crops_of_a_process_do_not_wait_for_torch_and_are_the_same():
    subprocess.run([sys.executable, "-c", FRESH], check=True, timeout=60)
