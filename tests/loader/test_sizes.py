import io

import numpy as np
import pytest
import torch
from PIL import Image

from webdataset.loader._item_sizes import size_of, size_of_many


def opened():
    stream = io.BytesIO()
    Image.new("RGBA", (40, 30)).save(stream, "PNG")
    return Image.open(stream)


@pytest.mark.parametrize(
    ("item", "size"),
    [
        (b"1234", 4),
        (np.zeros((3, 5), "f4"), 60),
        (torch.zeros(3, 5), 60),
        (Image.new("RGB", (100, 50)), 15_000),
        (opened(), 4_800),
        ({"__key__": "a", "x": [np.zeros(10, "u1"), (bytes(5), 7)]}, 1 + 10 + 5 + 64),
        (object(), 64),
    ],
)
def test_what_an_item_holds(item, size):
    assert size_of(item) == size


def test_neighbours_are_not_judged_by_the_first():
    assert size_of_many([b"", *[bytes(100)] * 3]) == 300
    assert 50_000 < size_of_many([b"", *[bytes(1000)] * 99]) < 100_000
