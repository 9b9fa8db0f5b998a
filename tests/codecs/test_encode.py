"""Encoding by the name of the field."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from webdataset.codecs import (
    add_handlers,
    bytestr,
    decode_field,
    default_handlers,
    encode_based_on_extension,
    encode_based_on_extension1,
    encode_field,
    imageencoder,
    make_handlers,
)
from webdataset.errors import EncodingError, SpecError, WebDatasetError

PUBLIC = "cbor class cls cls2 count htm html id image img index inx jpeg jpg jsn json mp msg msgpack npy npz pbm pgm pickle png ppm pth pyd tb ten tenbin text tif tiff transcript txt"


def test_the_public_table_is_all_there():
    assert set(PUBLIC.split()) <= set(default_handlers)
    assert set(make_handlers()) == set(default_handlers)


def test_order_of_rules_bytes_then_text_then_table():
    for extension in (*PUBLIC.split(), "unknown"):
        assert encode_field(f"a.{extension}", b"raw") == b"raw"
        assert encode_field(f"a.{extension}", bytearray(b"raw")) == b"raw"
        assert encode_field(f"a.{extension}", memoryview(b"raw")) == b"raw"
        assert encode_field(f"a.{extension}", "é") == "é".encode()


def test_D15_class_labels_are_whole_numbers():
    for label in (3, np.int64(3), np.uint8(3), np.array(3), torch.tensor(3), True + 2):
        assert encode_field("cls", label) == b"3"
    assert encode_field("cls", True) == b"1"
    for wrong in (None, 3.0, [3], np.array([3]), torch.tensor([3]), np.float32(3), {"a": 1}, torch.tensor(3.0)):
        with pytest.raises(EncodingError, match="expected an integer") as caught:
            encode_field("label.cls", wrong)
        assert "field label.cls" in str(caught.value)


def test_D59_json_takes_numpy_and_torch():
    value = {"a": np.int32(1), "b": np.float32(0.5), "c": np.arange(3), "d": torch.ones(2), "e": np.bool_(True)}
    assert decode_field("json", encode_field("json", value)) == {
        "a": 1,
        "b": 0.5,
        "c": [0, 1, 2],
        "d": [1.0, 1.0],
        "e": True,
    }
    assert encode_field("json", {"é": [1, None]}) == b'{"\\u00e9": [1, null]}'
    with pytest.raises(EncodingError, match="no JSON form.*field x.json"):
        encode_field("x.json", {"a": object()})


def test_D59_text_takes_numbers():
    assert encode_field("txt", 3) == b"3"
    assert encode_field("txt", np.float32(0.5)) == b"0.5"
    for wrong in (None, [1], {"a": 1}):
        with pytest.raises(EncodingError, match="field txt"):
            encode_field("txt", wrong)


def test_D59_options_reach_the_encoder():
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    assert len(encode_field("jpg", image, quality=30)) < len(encode_field("jpg", image)) / 2
    assert Image.open(io.BytesIO(encode_field("jpg", image, progressive=True))).info["progressive"]
    assert decode_field("webp", encode_field("webp", image, lossless=True), "rgb8").tolist() == image.tolist()
    with pytest.raises(SpecError, match="does not take these options.*field cls"):
        encode_field("cls", 3, quality=90)


def test_default_jpeg_quality_is_100():
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=100)
    for extension in ("jpg", "jpeg", "img", "image"):
        assert encode_field(extension, image) == stream.getvalue()


def test_D14_floats_are_rounded_and_checked():
    assert decode_field("png", encode_field("png", np.array([[0.999, 0.5, 0.0, 1.0005, -0.0005]])), "l8").tolist() == [
        [255, 128, 0, 255, 0]
    ]
    for wrong in (np.nan, np.inf, 1.1, -0.1):
        with pytest.raises(EncodingError, match="between 0 and 1"):
            encode_field("png", np.array([[0.5, wrong]]))


@pytest.mark.parametrize("kind", ["u1", "f2", "f4", "f8", "?"])
@pytest.mark.parametrize("channels", [None, 1, 3, 4])
def test_D46_images_of_every_type_and_shape(kind, channels):
    rng = np.random.default_rng(0)
    base = rng.integers(0, 2, (5, 7) if channels is None else (5, 7, channels))
    image = (base * (255 if kind == "u1" else 1)).astype(kind)
    expected = (base * 255).astype(np.uint8)
    spec = {None: "l8", 1: "l8", 3: "rgb8", 4: "rgba8"}[channels]
    expected = expected[..., 0] if channels == 1 else expected
    assert np.array_equal(decode_field("png", encode_field("png", image), spec), expected)
    tensor = torch.from_numpy(image)
    tensor = tensor if channels is None else tensor.permute(2, 0, 1)
    assert np.array_equal(decode_field("png", encode_field("png", tensor), spec), expected)
    if kind == "f4":
        assert np.array_equal(
            decode_field("png", encode_field("png", tensor.bfloat16().requires_grad_()), spec), expected
        )


@pytest.mark.parametrize(
    ("extension", "value", "message"),
    [
        ("png", np.zeros((2, 2), "i8"), "dtype of pixels: int64"),
        ("png", np.zeros((3, 8, 9), "u1"), r"\(3, 8, 9\) is not an image"),
        ("png", np.zeros((0, 3), "u1"), "is not an image"),
        ("png", np.zeros(3, "u1"), "is not an image"),
        ("png", [[1, 2]], "expected an image"),
        ("png", None, "expected an image"),
        ("jpg", np.zeros((2, 2, 4), "u1"), "RGBA image cannot be written"),
        ("jpg", np.zeros((2, 2), "u2"), "cannot be written"),
        ("png", np.zeros((2, 2, 3), "u2"), "16-bit"),
        ("pgm", np.zeros((2, 2, 3), "u1"), "RGB image cannot be written as 'pgm'"),
        ("pbm", np.full((2, 2), 7, "u1"), "cannot be written as 'pbm'"),
        ("npy", np.array([object()]), "Python objects"),
        ("npz", [1], "a dict of arrays, got list"),
        ("npz", {3: [1]}, "expected a str as the name of each array, got 3"),
        ("ten", [np.zeros(2, "U3")], "no code"),
        ("jsonl", {"a": 1}, "a list of values"),
        ("wav", np.zeros(3), r"\(waveform, rate\)"),
        ("wav", (np.zeros((2, 2, 2)), 3), "waveform"),
        ("mp4", np.zeros((2, 3, 3), "u1"), "frames"),
        ("safetensors", [1], "a dict of named tensors"),
        ("msgpack", object(), "MessagePack"),
        ("cbor", object(), "CBOR"),
        ("pkl", lambda: 0, "cannot be encoded"),
        ("unknown", 3, "no encoder found for x.unknown"),
    ],
)
def test_values_that_do_not_fit_are_errors_that_name_the_field(extension, value, message):
    with pytest.raises(EncodingError, match=message) as caught:
        encode_field(f"x.{extension}", value)
    assert f"field x.{extension}" in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_pictures_of_any_mode_go_where_they_fit():
    picture = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    assert decode_field("jpg", encode_field("jpg", picture.convert("1")), "l8").shape == (4, 4)
    assert decode_field("webp", encode_field("webp", picture.convert("LA"), lossless=True), "rgba8").shape == (4, 4, 4)
    assert decode_field("pbm", encode_field("pbm", np.eye(4)), "l8").tolist() == (np.eye(4) * 255).tolist()


def test_the_public_functions():
    assert encode_based_on_extension({"__key__": "a", "cls": 3, "__x__": "y"}, default_handlers) == {
        "__key__": "a",
        "cls": b"3",
        "__x__": "y",
    }
    with pytest.raises(ValueError, match="the values of metadata must be of string type"):
        encode_based_on_extension({"__key__": 3}, default_handlers)
    assert encode_based_on_extension1({"a": 1}, "X.JSON", default_handlers) == b'{"a": 1}'
    table = {}
    add_handlers(table, "a b", str)
    assert encode_based_on_extension({"x.a": 1, "b": 2}, table) == {"x.a": "1", "b": "2"}
    assert imageencoder(np.zeros((2, 2), "u1"), "PNG")[:4] == b"\x89PNG"
    assert imageencoder(np.zeros((2, 2), "u1"), "jpg")[:2] == b"\xff\xd8"
    assert imageencoder(np.zeros((2, 2), "u1"), "JPEG", quality=5)[:2] == b"\xff\xd8"
    with pytest.raises(EncodingError, match="unknown image format 'xyz'"):
        imageencoder(np.zeros((2, 2), "u1"), "xyz")
    assert bytestr(None) == b"None"


def test_the_table_may_be_extended(monkeypatch):
    monkeypatch.setitem(default_handlers, "xyz", lambda value: b"<%d>" % value)
    assert encode_field("a.xyz", 3) == b"<3>"
    assert encode_field("xyz.gz", 3)[:2] == b"\x1f\x8b"
    monkeypatch.setitem(default_handlers, "bad", lambda value: 1 / 0)
    with pytest.raises(EncodingError, match="ZeroDivisionError.*field bad") as caught:
        encode_field("bad", 3)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert isinstance(caught.value, WebDatasetError)
