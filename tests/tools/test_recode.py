"""`wds recode`: what goes in comes out, in the promised order, or an error."""

import io

import pytest
from PIL import Image

from tests.tools.datasets import keys, read, write_shard
from webdataset import tools
from webdataset.errors import (
    DecodingError,
    SpecError,
)
from webdataset.tools import Options


def picture(width, height, kind="jpeg", **options):
    stream = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(stream, kind, **options)
    return stream.getvalue()


def size_of(data):
    return Image.open(io.BytesIO(data)).size


@pytest.fixture
def images(here):
    samples = [
        {"__key__": "wide", "jpg": picture(80, 40), "cls": 1},
        {"__key__": "small", "jpg": picture(10, 8), "cls": 2},
        {"__key__": "mask", "jpg": picture(40, 40), "seg.png": picture(40, 40, "png")},
    ]
    return write_shard("images.tar", samples)


def test_recode_size(images):
    before = read(images)
    tools.recode(images, "out.tar", short=20)
    after = read("out.tar")
    assert size_of(after["wide"]["jpg"]) == (40, 20)
    assert after["small"] == before["small"]  # byte for byte
    assert after["mask"]["seg.png"] == before["mask"]["seg.png"]
    tools.recode(images, "long.tar", longest=20, fields=["jpg", "seg.png"])
    assert size_of(read("long.tar")["wide"]["jpg"]) == (20, 10)
    assert size_of(read("long.tar")["mask"]["seg.png"]) == (20, 20)
    tools.recode(images, "crop.tar", short=20, crop=16)
    assert size_of(read("crop.tar")["wide"]["jpg"]) == (16, 16)


@pytest.mark.parametrize(("name", "field", "magic"), [
    ("png", "png", b"\x89PNG"), ("webp", "webp", b"RIFF"), ("raw", "ppm", b"P6"), ("npy", "npy", b"\x93NUMPY"),
])  # fmt: skip
def test_recode_format(images, name, field, magic):
    tools.recode(images, "out.tar", format=name)
    assert read("out.tar")["wide"][field].startswith(magic)
    assert "jpg" not in read("out.tar")["wide"]
    assert read("out.tar")["wide"]["cls"] == b"1"


def test_recode_turns_images_upright(here):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90°
    url = write_shard("a.tar", [{"__key__": "a", "jpg": picture(80, 40, exif=exif)}])
    tools.recode(url, "out.tar", longest=40)
    assert size_of(read("out.tar")["a"]["jpg"]) == (20, 40)


def test_recode_of_what_is_no_image(here):
    url = write_shard("a.tar", [{"__key__": "bad", "jpg": b"<html>"}, {"__key__": "good", "jpg": picture(80, 40)}])
    with pytest.raises(DecodingError, match="sample bad"):
        tools.recode(url, "out/", short=20)
    for policy, expected in [("skip", ["good"]), ("keep", ["bad", "good"])]:
        for output in ("out/", "out.tar"):
            report = tools.recode(url, output, Options(force=True), short=20, failed=policy)
            assert keys(*report.outputs) == expected
            assert ["bad" in failure.item for failure in report.failed] == [True]


@pytest.mark.parametrize("options", [{}, {"format": "xyz"}, {"short": 0}, {"quality": 101, "short": 3}])
def test_bad_recoding(images, options):
    with pytest.raises(SpecError):
        tools.recode(images, "out.tar", **options)
