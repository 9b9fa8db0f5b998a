"""Image specs against Pillow."""

import io
import itertools

import numpy as np
import pytest
import simplejpeg
import torch
from PIL import Image

from webdataset.codecs import (
    IMAGE_EXTENSIONS,
    Decoder,
    ImageHandler,
    decode_field,
    decode_image,
    encode_field,
    imagehandler,
    imagespecs,
)
from webdataset.errors import DecodingError, SpecError


def photo(height, width, seed=0):
    """Smooth shapes with noise, so that JPEGs of it are like those of photographs."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (max(2, height // 16), max(2, width // 16), 3), dtype=np.uint8)
    big = np.asarray(Image.fromarray(small).resize((width, height), Image.BICUBIC)).astype(int)
    return np.clip(big + rng.normal(0, 12, big.shape), 0, 255).astype(np.uint8)


def saved(image, format, **options):
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


def pillow(data, mode):
    return np.asarray(Image.open(io.BytesIO(data)).convert(mode))


picture = Image.fromarray(photo(37, 53))


def pictures():
    for quality, subsampling, progressive in itertools.product((30, 95), (0, 1, 2), (False, True)):
        yield saved(picture, "JPEG", quality=quality, subsampling=subsampling, progressive=progressive)
    yield saved(picture.convert("L"), "JPEG")
    yield saved(picture.convert("CMYK"), "JPEG")
    yield saved(Image.fromarray(photo(1, 1)), "JPEG")
    yield saved(picture, "JPEG", keep_rgb=True)
    yield saved(picture, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0")
    yield saved(picture, "JPEG") + b"trailing bytes"
    for format in ("PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000", "AVIF"):
        yield saved(picture, format)
    for mode in ("L", "LA", "RGBA", "P", "1"):
        yield saved(picture.convert(mode), "PNG")


@pytest.mark.parametrize("data", list(pictures()))
def test_every_spec_has_pillows_pixels(data):
    for mode in ("L", "RGB", "RGBA"):
        expected, low = pillow(data, mode), mode.lower()
        eight = decode_field("png", data, f"{low}8")
        assert eight.dtype == np.uint8
        assert np.array_equal(eight, expected)
        floats = decode_field("png", data, low)
        assert floats.dtype == np.float32
        assert np.array_equal(floats, expected.astype(np.float32) / 255)
        chw = expected if mode == "L" else expected.transpose(2, 0, 1)
        tensor = decode_field("png", data, f"torch{low}8")
        assert tensor.dtype == torch.uint8
        assert tensor.is_contiguous()
        assert np.array_equal(tensor.numpy(), chw)
        tensor = decode_field("png", data, f"torch{low}")
        assert tensor.dtype == torch.float32
        assert np.array_equal(tensor.numpy(), chw.astype(np.float32) / 255)
        image = decode_field("png", data, f"pil{low}")
        assert image.mode == mode
        assert np.array_equal(np.asarray(image), expected)


def test_without_simplejpeg_pillow_does_the_same(monkeypatch):
    data = saved(picture, "JPEG")
    monkeypatch.setattr(simplejpeg, "decode_jpeg", None)  # would fail if it were called
    monkeypatch.setattr("webdataset.codecs._jpeg.find_package", lambda name: None)
    assert np.array_equal(decode_field("jpg", data, "rgb8"), pillow(data, "RGB"))


def test_simplejpeg_is_what_decodes_jpegs(monkeypatch):
    monkeypatch.setattr("webdataset.codecs._decode_pixels.open_image", None)
    assert decode_field("jpg", saved(picture, "JPEG"), "rgb8").shape == (37, 53, 3)


def test_aliases():
    data = saved(picture, "PNG")
    assert torch.equal(decode_field("png", data, "torch"), decode_field("png", data, "rgbtorch"))
    assert decode_field("png", data, "pil").mode == "RGB"
    assert {"l8", "rgb8", "rgba8", "l", "rgb", "rgba", "torch", "torchrgb", "pil", "pill", "pilrgba"} <= set(imagespecs)


def test_D14_sixteen_bits_are_kept_or_scaled_but_never_clipped():
    deep = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    data = encode_field("png", deep)
    assert np.array_equal(decode_field("png", data, "l16"), deep)
    assert decode_field("png", data, "torchl16").dtype == torch.uint16
    assert np.array_equal(decode_field("png", data, "l8"), np.arange(256).reshape(16, 16))
    assert np.allclose(decode_field("png", data, "l"), deep / 65535)
    assert np.allclose(decode_field("png", data, "torchrgb"), np.stack([deep / 65535] * 3))
    assert decode_field("png", data, "rgba8")[3, 4].tolist() == [52, 52, 52, 255]
    assert np.array_equal(np.asarray(decode_field("png", data, "pil"))[..., 0], np.arange(256).reshape(16, 16))
    assert np.array_equal(decode_field("png", encode_field("png", np.eye(3)), "l16"), np.eye(3) * 65535)


def test_D14_transparent_images_can_be_laid_over_a_colour():
    half = np.zeros((2, 2, 4), np.uint8) + np.array([255, 0, 0, 128], np.uint8)
    data = encode_field("png", half)
    assert decode_field("png", data, "rgb8")[0, 0].tolist() == [255, 0, 0]
    assert decode_field("png", data, ImageHandler("rgb8", background="white"))[0, 0].tolist() == [255, 127, 127]
    opaque = saved(picture, "PNG")
    assert np.array_equal(decode_field("png", opaque, ImageHandler("rgb8", background="white")), np.asarray(picture))


def test_images_are_turned_only_on_request():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = saved(picture, "JPEG", exif=exif)
    assert decode_field("jpg", data, "rgb8").shape == (37, 53, 3)
    assert decode_field("jpg", data, ImageHandler("rgb8", orient=True)).shape == (53, 37, 3)


def test_D47_only_still_images_are_claimed():
    handler = imagehandler("rgb8")
    for extension in "h5 hdf fits fit grib bufr mpg mpeg eps ps wmf emf fli txt".split():
        assert handler(f".{extension}", b"bytes") is None
    assert {"jpg", "png", "webp", "avif", "img", "image", "tiff"} <= set(IMAGE_EXTENSIONS)


def test_own_extensions():
    data = saved(picture, "PNG")
    assert imagehandler("l8", ["foo"])(".x.foo", data).shape == (37, 53)
    assert imagehandler("l8", "foo .bar")(".bar", data).shape == (37, 53)
    assert imagehandler("l8", ["foo"])(".png", data) is None


@pytest.mark.parametrize("make", [imagehandler, decode_image])
def test_an_extension_may_have_several_parts(make):
    handler, data = make("l8", extensions="seg.png"), saved(picture, "PNG")
    assert handler(".seg.png", data) is not None
    assert handler(".left.seg.PNG", data) is not None
    assert handler(".png", data) is None
    assert handler(".noseg.png", data) is None


def test_a_drawing_that_would_start_a_program_is_not_opened():
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    with pytest.raises(DecodingError, match="UnidentifiedImageError"):
        Decoder(["rgb8"])({"jpg": eps})


def test_bombs_are_refused():
    header = bytearray(saved(picture, "JPEG"))
    start = header.index(b"\xff\xc0")
    header[start + 5 : start + 9] = b"\xff\xdc\xff\xdc"
    with pytest.raises(DecodingError, match="Bomb"):
        Decoder(["rgb8"])({"jpg": bytes(header)})


@pytest.mark.parametrize("handler", ["rgb8", "l8", "pil", "l16", decode_image("rgb8", size=4)])
@pytest.mark.parametrize("options", [{"progressive": True}, {"progressive": True, "restart_marker_blocks": 1}])
def test_a_jpeg_of_very_many_scans_is_refused(handler, options):
    """Each scan of a few bytes visits all pixels again: a megabyte of them takes hours."""
    data = saved(picture, "JPEG", **options)
    last = data.rindex(b"\xff\xda")
    scan = data[last : last + 2 + data[last + 3]]
    decode_field("jpg", data[:-2] + 400 * scan + data[-2:], handler)
    with pytest.raises(DecodingError, match="JPEG of .* scans, more than 500"):
        decode_field("jpg", data[:-2] + 500 * scan + data[-2:], handler)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_truncated_images_are_errors(format):
    data = saved(picture, format)
    for cut in range(0, len(data) * 9 // 10, max(1, len(data) // 40)):
        with pytest.raises(DecodingError):
            Decoder(["rgb8"])({"jpg": data[:cut]})


def test_unknown_specs_fail_at_construction_and_name_the_known():
    with pytest.raises(SpecError, match=r"Unknown imagespec: rgb9 .*rgb8"):
        imagehandler("rgb9")
