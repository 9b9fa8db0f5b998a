"""The upper rows of a JPEG, against all of them."""

import io

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from webdataset.codecs import DecodeImage, decode_field
from webdataset.codecs._jpeg import jpeg_pixels, jpeg_size, upper_pixels
from webdataset.errors import DecodingError

HEIGHT, WIDTH = 200, 120


def jpeg(mode="RGB", **options):
    rng = np.random.default_rng(3)
    small = Image.fromarray(rng.integers(0, 256, (12, 8, 3), dtype=np.uint8)).resize((WIDTH, HEIGHT))
    noisy = np.clip(np.asarray(small) + rng.normal(0, 20, (HEIGHT, WIDTH, 3)), 0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(noisy).convert(mode).save(out, "JPEG", **{"quality": 90, **options})
    return out.getvalue()


PHOTO = jpeg()


def upper(data, rows, mode="RGB", step=1):
    return upper_pixels(data, mode, step=step, size=jpeg_size(data, mode), rows=rows)


@pytest.fixture
def decoded(monkeypatch):
    """How many rows simplejpeg was told of, call by call."""
    heights, real = [], simplejpeg.decode_jpeg

    def spy(data, *args, **options):
        heights.append(simplejpeg.decode_jpeg_header(bytes(data))[0])
        return real(data, *args, **options)

    monkeypatch.setattr(simplejpeg, "decode_jpeg", spy)
    return heights


@pytest.mark.parametrize("options", [{"subsampling": n} for n in (0, 1, 2)] + [{"mode": "L"}, {"comment": b"hello"}])
@pytest.mark.parametrize("step", [1, 2, 4, 8])
def test_the_rows_are_those_of_the_whole_image(options, step, decoded):
    data = jpeg(**options)
    mode = options.get("mode", "RGB")
    whole = jpeg_pixels(data, mode, step=step)
    decoded.clear()
    for rows in range(step, HEIGHT, 7 * step):
        part = upper(data, rows, mode, step)
        assert np.array_equal(part[: rows // step], whole[: rows // step])
    assert min(decoded) < 40
    assert decoded.count(HEIGHT) <= 4


@pytest.mark.parametrize("options", [{"progressive": True}, {"restart_marker_blocks": 3}])
def test_jpegs_that_are_not_so_simple_are_decoded_at_once_and_whole(options, decoded):
    data = jpeg(**options)
    assert np.array_equal(upper(data, 20), jpeg_pixels(data, "RGB"))
    assert decoded == [HEIGHT, HEIGHT]


@given(st.integers(0, len(PHOTO) - 3))
def test_a_jpeg_that_was_cut_short_is_found_out_whatever_rows_are_wanted(length):
    if jpeg_size(PHOTO[:length], "RGB") is not None:
        assert upper(PHOTO[:length], 20) is None


def test_damage_in_the_wanted_rows_is_found_out():
    start = PHOTO.index(b"\xff\xda")
    damaged = PHOTO[: start + 200] + b"\xff\xd5" * 40 + PHOTO[start + 280 :]
    assert upper(damaged, 100) is None


def test_crops_of_a_truncated_jpeg_are_errors():
    with pytest.raises(DecodingError):
        decode_field("jpg", PHOTO[:-1000], DecodeImage("rgb8", size=20, crop="random", scale=(0.08, 0.1)))
