"""Every extension, both ways: what is encoded comes back."""

import collections
import datetime

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from webdataset.codecs import (
    IMAGE_EXTENSIONS,
    IMAGE_FORMATS,
    AudioHandler,
    VideoHandler,
    decode_field,
    decoders,
    default_handlers,
    encode_field,
)
from webdataset.testing import CodecContract

grey = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5
colour = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
clear = np.random.default_rng(1).integers(0, 256, (6, 8, 4), dtype=np.uint8)


class TestText(CodecContract):
    extensions = "txt text transcript html htm"
    values = ("", "a dog", "größer ☃", "two\nlines\r\n")


class TestIntegers(CodecContract):
    extensions = "cls cls2 class count index inx id"
    values = (0, 7, -3, 10**30)


class TestJson(CodecContract):
    extensions = "json jsn"
    values = (None, True, 3, 2.5, ["x"], [1, [2]], {"a": {"b": None}}, 2**63, -(2**63), 10**40, float("inf"))


class TestJsonLines(CodecContract):
    extensions = "jsonl ndjson"
    values = ([], [{"a": 1}, [2], "x\ny"])


class TestPickle(CodecContract):
    extensions = "pkl pickle pyd"
    values = (
        {"a": (1, 2.5, b"x", {3}, frozenset({4}), 1j)},
        np.arange(6).reshape(2, 3),
        collections.OrderedDict(a=1),
        datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc),
        [torch.arange(3)],
    )


class TestTorch(CodecContract):
    extensions = "pth pt"
    values = ({"w": torch.arange(6).reshape(2, 3)}, torch.zeros(2, dtype=torch.bfloat16), [1, "a"])


class TestSafetensors(CodecContract):
    extensions = "safetensors"
    values = (
        {"a": np.arange(6.0).reshape(2, 3), "b": np.zeros(3, "u1")},
        {"t": torch.ones(2, dtype=torch.bfloat16), "u": torch.arange(3)},
    )


class TestNpy(CodecContract):
    extensions = "npy"
    values = (
        *(np.array(3.5), np.zeros((0, 3)), np.arange(24).reshape(2, 3, 4), np.asfortranarray(np.eye(3))),
        *(np.array(["a", "bcd"]), np.array([True]), np.arange(3, dtype=">i4"), np.zeros(2, "c16")),
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    )


class TestNpz(CodecContract):
    extensions = "npz"
    values = ({}, {"x": np.arange(3), "y/z": np.eye(2)})


class TestTenbin(CodecContract):
    extensions = "ten tenbin tb"
    values = (
        [np.zeros((2, 3), kind) for kind in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?".split()],
        [np.array(5, "u4")],
        [torch.ones((2, 2), dtype=torch.bfloat16)],
        [],
    )


class TestPacked(CodecContract):
    extensions = "mp msgpack msg cbor"
    values = (None, {"a": [1, 2.5, "x", b"y"]}, 2**40)


class TestLosslessGrey(CodecContract):
    extensions = "png bmp dib ppm pnm pgm tif tiff tga jp2 j2k gif"
    values = (grey,)
    handlers = ("l8",)


class TestLosslessColour(CodecContract):
    extensions = "png bmp dib ppm pnm tif tiff tga jp2 j2k"
    values = (colour,)
    handlers = ("rgb8",)


class TestLosslessAlpha(CodecContract):
    extensions = "png tif tiff tga"
    values = (clear,)
    handlers = ("rgba8",)


class TestLosslessWebp(CodecContract):
    extensions = "webp"
    values = (colour, clear | np.array([0, 0, 0, 255], "u1"))
    handlers = ("rgba8",)
    options = {"lossless": True}

    def same(self, given, back):
        return np.array_equal(given, back[..., : given.shape[2]])


class TestDeep(CodecContract):
    extensions = "png pgm tif tiff ppm"
    values = (np.arange(48, dtype=np.uint16).reshape(6, 8) * 1365,)
    handlers = ("l16",)


class TestBlackAndWhite(CodecContract):
    extensions = "pbm png ppm bmp tif"
    values = (np.eye(9, dtype=bool),)
    handlers = ("l8",)

    def same(self, given, back):
        return np.array_equal(given * np.uint8(255), back)


class TestLossyImages(CodecContract):
    extensions = "jpg jpeg jpe jfif img image webp avif"
    values = (np.kron(colour, np.ones((16, 16, 1), "u1")),)
    handlers = ("rgb8",)

    def same(self, given, back):
        return given.shape == back.shape and np.abs(given.astype(int) - back).mean() < 8


class TestSound(CodecContract):
    extensions = "wav flac"
    values = ((np.random.default_rng(0).uniform(-1, 1, (2, 500)).astype("f4"), 8000), (np.zeros(10, "i2"), 16000))
    handlers = (AudioHandler(),)

    def same(self, given, back):
        return back[1] == given[1] and np.abs(np.atleast_2d(given[0]) - back[0]).max() < 2e-7


class TestLossySound(CodecContract):
    extensions = "mp3 ogg opus"
    reproducible = False  # libogg numbers its streams at random
    values = ((np.sin(np.arange(48000) / 20)[None].astype("f4") / 2, 48000),)
    handlers = ("audio",)

    def same(self, given, back):
        return back[1] == given[1] and abs(back[0].shape[1] - 48000) < 3000


class TestFilm(CodecContract):
    extensions = "mp4 m4v mov mkv webm avi"
    values = (np.broadcast_to(np.arange(0, 250, 50, dtype="u1")[:, None, None, None], (5, 32, 48, 3)),)
    handlers = (VideoHandler(),)
    options = {"fps": 10}

    def same(self, given, back):
        return (
            back[0].shape == given.shape
            and np.abs(given.astype(int) - back[0]).max() < 12
            and back[2]["video_fps"] == 10
        )


_tested = {
    extension
    for contract in CodecContract.__subclasses__()
    if contract.__module__ == __name__
    for extension in contract.extensions.split()
}


def test_every_extension_of_both_tables_is_in_a_contract():
    assert _tested == set(decoders) | set(default_handlers)


def test_D46_whatever_encodes_decodes():
    pictures_sound_film = set(IMAGE_EXTENSIONS) | set(AudioHandler().resolve and "flac mp3 ogg opus wav".split())
    from webdataset.codecs import VIDEO_EXTENSIONS

    for extension in default_handlers:
        assert extension in decoders or extension in pictures_sound_film or extension in VIDEO_EXTENSIONS
    assert set(IMAGE_FORMATS) <= set(IMAGE_EXTENSIONS)


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed_members_come_back(suffix):
    assert decode_field(f"a.json.{suffix}", encode_field(f"a.json.{suffix}", {"x": [1]})) == {"x": [1]}
    assert decode_field(f"bin.{suffix}", encode_field(f"bin.{suffix}", b"raw")) == b"raw"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(json_values)
def test_any_json_comes_back(value):
    # Text on its own passes as it is, whatever the extension; inside of anything it is encoded.
    assert decode_field("json", encode_field("json", [value])) == [value]


@given(
    st.recursive(
        json_values | st.binary() | st.complex_numbers(allow_nan=False), lambda i: st.tuples(i, i) | st.lists(i)
    )
)
def test_any_plain_value_survives_the_pickle(value):
    (back,) = decode_field("pkl", encode_field("pkl", (value,)))
    assert back == value
    assert type(back) is type(value)


plain_dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.unicode_string_dtypes(endianness="?"),
    hnp.datetime64_dtypes(endianness="?"),
    hnp.complex_number_dtypes(),
)


@given(
    hnp.arrays(plain_dtypes | hnp.array_dtypes(plain_dtypes), hnp.array_shapes(min_dims=0, min_side=0)), st.booleans()
)
def test_any_array_comes_back_as_npy_and_as_pickle(array, fortran):
    array = np.asfortranarray(array) if fortran and array.ndim > 1 else array
    back = decode_field("npy", encode_field("npy", array))
    assert back.dtype == array.dtype and back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert back.flags.writeable
    unpickled = decode_field("pkl", encode_field("pkl", array))
    assert unpickled.shape == array.shape
    assert unpickled.astype(array.dtype).tobytes() == array.tobytes()


tenbin_dtypes = st.sampled_from("f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?".split())


@given(
    st.lists(tenbin_dtypes.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, min_side=0))), max_size=4)
)
def test_any_list_of_arrays_comes_back_as_tenbin(arrays):
    back = decode_field("ten", encode_field("ten", arrays))
    assert [each.tobytes() for each in back] == [each.tobytes() for each in arrays]
    assert [(each.shape, each.dtype) for each in back] == [(each.shape, each.dtype) for each in arrays]


@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 4]))))
def test_any_picture_comes_back_from_png(pixels):
    spec = {1: "l8", 3: "rgb8", 4: "rgba8"}[pixels.shape[2]]
    assert np.array_equal(
        decode_field("png", encode_field("png", pixels), spec), pixels.squeeze(2) if spec == "l8" else pixels
    )
