"""Boxes as torchvision draws them."""

import math
import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webdataset.codecs._crop import Box, central_box, covering, random_box

SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


def is_uniform(values, low, high):
    """Kolmogorov–Smirnov against the uniform distribution; at this level one right sample in a million fails."""
    values = np.sort((np.asarray(values) - low) / (high - low))
    distance = np.abs(values - (np.arange(len(values)) + 0.5) / len(values)).max()
    return distance < 2.7 / math.sqrt(len(values))


def boxes(width, height, scale=SCALE, ratio=RATIO, n=4000):
    rng = random.Random(1)
    return [random_box(width, height, scale, ratio, rng) for _ in range(n)]


def test_the_area_is_uniform_and_the_ratio_is_uniform_in_its_logarithm():
    # So small a share is never refused for want of room, so what comes out is what was drawn.
    found = boxes(4000, 4000, scale=(0.05, 0.5))
    assert is_uniform([box.width * box.height / 16e6 for box in found], 0.05, 0.5)
    assert is_uniform([math.log(box.width / box.height) for box in found], math.log(3 / 4), math.log(4 / 3))


def test_the_place_is_uniform():
    found = boxes(4000, 3000, scale=(0.05, 0.5))
    assert is_uniform([box.x / (4000 - box.width) for box in found], 0, 1)
    assert is_uniform([box.y / (3000 - box.height) for box in found], 0, 1)


def reference_box(width, height, scale, ratio, rng):
    """RandomResizedCrop in the words of torchvision's documentation, with another generator."""
    for _ in range(10):
        area = width * height * rng.uniform(*scale)
        aspect = np.exp(rng.uniform(*np.log(ratio)))
        w, h = int(round(np.sqrt(area * aspect))), int(round(np.sqrt(area / aspect)))
        if 0 < w <= width and 0 < h <= height:
            return rng.integers(0, width - w + 1), rng.integers(0, height - h + 1), w, h
    if width / height < ratio[0]:
        w, h = width, int(round(width / ratio[0]))
    elif width / height > ratio[1]:
        w, h = int(round(height * ratio[1])), height
    else:
        w, h = width, height
    return (width - w) // 2, (height - h) // 2, w, h


@pytest.mark.parametrize(("width", "height"), [(500, 375), (224, 640), (2000, 100)])
def test_the_distribution_is_that_of_the_documented_procedure(width, height):
    rng = np.random.default_rng(2)
    ours = np.sort(np.array(boxes(width, height)), axis=0)
    theirs = np.sort(np.array([reference_box(width, height, SCALE, RATIO, rng) for _ in range(4000)]), axis=0)
    for column in range(4):
        grid = np.union1d(ours[:, column], theirs[:, column])
        cdfs = [np.searchsorted(each[:, column], grid, "right") / 4000 for each in (ours, theirs)]
        assert np.abs(cdfs[0] - cdfs[1]).max() < 2.7 * math.sqrt(2 / 4000)


@pytest.mark.parametrize(
    ("width", "height", "box"),
    [(100, 1000, (0, 433, 100, 133)), (1000, 100, (433, 0, 133, 100)), (100, 100, (0, 0, 100, 100))],
)
def test_after_ten_tries_the_largest_central_box(width, height, box):
    class Greedy(random.Random):
        def uniform(self, low, high):
            return high if low > 0 else low  # all of the area, and the flattest ratio

    assert random_box(width, height, (1.0, 1.0), RATIO, Greedy()) == box


@given(
    st.integers(1, 3000),
    st.integers(1, 3000),
    st.sampled_from([RATIO, (0.1, 0.3), (3, 10)]),
    st.integers(0, 2**32),
)
@example(1, 1, (0.1, 0.3), 0)
@example(1, 1, (3, 10), 0)
def test_boxes_lie_inside(width, height, ratio, seed):
    box = random_box(width, height, SCALE, ratio, random.Random(seed))
    assert 0 <= box.x <= box.x + box.width <= width
    assert 0 <= box.y <= box.y + box.height <= height
    assert box.width > 0
    assert box.height > 0
    for step in (2, 4, 8):
        if box.width >= step and box.height >= step:
            snapped = box.snapped(step)
            assert abs(snapped.x - box.x) <= step // 2
            assert abs(snapped.x + snapped.width - box.x - box.width) <= step // 2
            assert snapped.width > 0
            assert snapped.height > 0
            small = snapped.divided(step)
            assert small.x + small.width <= math.ceil(width / step)
            assert small.y + small.height <= math.ceil(height / step)


@pytest.mark.parametrize(
    ("width", "height", "resized", "box"),
    [
        (500, 375, (256, 341), (58, 16)),
        (375, 500, (341, 256), (16, 58)),
        (256, 256, (256, 256), (16, 16)),
        (333, 500, (384, 256), (16, 80)),
    ],
)
def test_resize_and_centre_crop(width, height, resized, box):
    assert covering(width, height, (256, 256)) == resized
    assert central_box(resized[1], resized[0], (224, 224)) == Box(*box, 224, 224)


@given(st.integers(1, 900), st.integers(1, 900), st.integers(1, 300), st.integers(1, 300))
def test_what_covers_covers(width, height, least_height, least_width):
    resized = covering(width, height, (least_height, least_width))
    assert resized[0] >= least_height
    assert resized[1] >= least_width
    assert resized[0] == least_height or resized[1] == least_width
