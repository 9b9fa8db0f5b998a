"""Plain PNGs and WebPs by OpenCV: Pillow's pixels, and whatever is not plain is left to Pillow."""

import io
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from webdataset.codecs import DecodeImage, decode_field
from webdataset.codecs._opencv import plain_pixels
from webdataset.errors import DecodingError

RNG = np.random.default_rng(0)


def saved(image, format, **options):
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


def picture(height=37, width=53, mode="RGB"):
    return Image.fromarray(RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)).convert(mode)


def info():
    made = PngInfo()
    made.add_text("Comment", "hello")
    made.add(b"gAMA", (45455).to_bytes(4))
    return made


def chunk(kind, data):
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)


def turned_behind(png):
    """With the orientation between the pixels and the end, where few look for it."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return png[:-12] + chunk(b"eXIf", exif.tobytes()[6:]) + png[-12:]


PLAIN = {
    "png": saved(picture(), "PNG"),
    "png turned behind its pixels": turned_behind(saved(picture(), "PNG")),
    "one pixel": saved(picture(1, 1), "PNG"),
    "png with words and gamma": saved(picture(), "PNG", pnginfo=info(), dpi=(72, 72)),
    "webp": saved(picture(), "WEBP"),
    "webp of one pixel": saved(picture(1, 1), "WEBP"),
    "lossless webp": saved(picture(), "WEBP", lossless=True),
}
EXIF = Image.Exif()
EXIF[0x0112] = 6
OTHER = {
    **{f"png {mode}": saved(picture(mode=mode), "PNG") for mode in ("L", "LA", "RGBA", "P", "1")},
    "16 bits": saved(Image.fromarray(RNG.integers(0, 65536, (5, 6), dtype=np.uint16)), "PNG"),
    "a transparent colour": saved(picture(), "PNG", transparency=(1, 2, 3)),
    "turned png": saved(picture(), "PNG", exif=EXIF),
    "moving png": saved(picture(), "PNG", save_all=True, append_images=[picture()]),
    "webp RGBA": saved(Image.fromarray(RNG.integers(0, 256, (9, 8, 4), dtype=np.uint8)), "WEBP", lossless=True),
    "turned webp": saved(picture(), "WEBP", exif=EXIF),
    "moving webp": saved(picture(), "WEBP", save_all=True, append_images=[picture()]),
    "jpeg": saved(picture(), "JPEG"),
    "nothing": b"",
}


@pytest.mark.parametrize("data", PLAIN.values(), ids=PLAIN)
def test_plain_images_have_pillows_pixels(data):
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert np.array_equal(plain_pixels(data, "RGB"), expected)
    assert plain_pixels(data, "L") is None
    assert plain_pixels(data, "RGBA") is None


@pytest.mark.parametrize("data", OTHER.values(), ids=OTHER)
def test_others_are_left_to_pillow(data):
    assert plain_pixels(data, "RGB") is None


@pytest.mark.parametrize("data", PLAIN.values(), ids=PLAIN)
def test_opencv_is_what_decodes_them(data, monkeypatch):
    monkeypatch.setattr("webdataset.codecs._decode_pixels.open_image", None)
    monkeypatch.setattr("webdataset.codecs._image_specs.open_image", None)
    assert decode_field("png", data, "rgb8").flags.writeable
    assert decode_field("png", data, DecodeImage("rgb8", size=8)).flags.writeable


def by_pillow(data):
    try:
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    except Exception:
        return None


def assert_as_pillow(data):
    expected = by_pillow(data)
    if expected is None:
        with pytest.raises(DecodingError):
            decode_field("png", data, "rgb8")
    else:
        assert np.array_equal(decode_field("png", data, "rgb8"), expected)


@given(st.sampled_from(sorted(PLAIN)), st.integers(0, 10_000))
def test_what_was_cut_short_is_an_error_where_it_is_one_for_pillow(name, length):
    assert_as_pillow(PLAIN[name][: length % len(PLAIN[name])])


@given(st.sampled_from(sorted(PLAIN)), st.integers(0, 10_000), st.integers(1, 255))
def test_what_was_damaged_is_an_error_where_it_is_one_for_pillow(name, place, change):
    data = bytearray(PLAIN[name])
    data[place % len(data)] ^= change
    assert_as_pillow(bytes(data))


def test_bombs_are_left_to_pillow(monkeypatch):
    monkeypatch.setattr(cv2, "imdecode", None)
    png, webp = bytearray(PLAIN["png"]), bytearray(PLAIN["webp"])
    png[16:24] = (1 << 30).to_bytes(4) * 2
    webp[26:30] = b"\xff\x3f\xff\x3f"
    assert plain_pixels(bytes(png), "RGB") is None
    assert plain_pixels(bytes(webp), "RGB") is None


def test_without_opencv_pillow_does_the_same(monkeypatch):
    monkeypatch.setattr("webdataset.codecs._opencv.find_package", lambda name: None)
    for data in PLAIN.values():
        expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        assert np.array_equal(decode_field("png", data, "rgb8"), expected)
