"""Views of a window decode to what bytes decode to, for every codec; and what cannot be decoded is the same error."""

import gc
import inspect
import random
import re
import weakref

import numpy as np
import pytest

import webdataset as wds
from tests.codecs import test_contract
from webdataset.codecs import Decoder, decode_field, decoders, encode_field
from webdataset.errors import DecodingError
from webdataset.tar import Windows

# Every codec with its values, as the contract tests have them.
CODECS = [
    (extension, codec)
    for _, codec in inspect.getmembers(test_contract, inspect.isclass)
    if issubclass(codec, test_contract.CodecContract) and codec.values
    for extension in codec.extensions.split()
]


def view(data):
    """The bytes in a window of others, as a reader shows them."""
    window, shown = Windows(len(data) + 1024).take()
    window[7 : 7 + len(data)] = data
    return shown[7 : 7 + len(data)]


same = test_contract.CodecContract().same


def outcome(field, data, handlers):
    try:
        return decode_field(field, data, *handlers)
    except Exception as error:
        return type(error), re.sub("0x[0-9a-f]+", "…", str(error))  # the address of a stream


def test_no_codec_is_forgotten():
    assert {extension for extension, _ in CODECS} >= set(decoders)


@pytest.mark.parametrize(("extension", "codec"), CODECS, ids=lambda each: getattr(each, "__name__", each))
def test_views_decode_to_what_bytes_do(extension, codec):
    for value in codec.values:
        data = encode_field(extension, value, **codec.options)
        for stored in (data, b"", data[:3], data[: len(data) // 2], data[:-1], b"\xff" * 40 + data):
            expected = outcome(extension, stored, codec.handlers)
            assert same(expected, outcome(extension, view(stored), codec.handlers))


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_packed_fields(packing):
    data = encode_field(f"json.{packing}", [1, 2])
    assert decode_field(f"json.{packing}", view(data)) == [1, 2]


@pytest.mark.parametrize("spec", ["rgb8", "torchrgb", "l16"])
@pytest.mark.parametrize("extension", ["jpg", "png", "webp", "ppm", "gif", "tiff"])
def test_images(spec, extension):
    picture = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    data = encode_field(extension, picture)
    expected = decode_field(extension, data, spec)
    assert (np.asarray(decode_field(extension, view(data), spec)) == np.asarray(expected)).all()


@pytest.mark.parametrize("extension", ["jpg", "png", "webp"])
def test_parts_of_images(extension):
    picture = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    data, handler = encode_field(extension, picture), wds.decode_image("rgb8", size=4, crop="random")
    crops = [handler.decode(stored, random.Random(1)) for stored in (data, view(data))]
    assert (crops[0] == crops[1]).all()


def test_whole_columns():
    fields = {"json": {"a": 1}, "npy": np.arange(3), "cls": 3, "txt": "a dog"}
    columns = {name: [encode_field(name, value)] * 3 for name, value in fields.items()}
    expected = Decoder().decode_columns(columns)
    found = Decoder().decode_columns({name: list(map(view, column)) for name, column in columns.items()})
    assert expected.keys() == found.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_a_field_without_a_decoder_stays_a_view():
    assert type(decode_field("xyz", view(b"abc"))) is memoryview


def test_what_a_decoder_remembers_is_no_view():
    windows = Windows(4096)
    window, shown = windows.take()
    data = encode_field("npy", np.array([1, 2], "M8[D]"))  # a header that no other test has
    window[: len(data)] = data
    gone = weakref.ref(shown.obj)
    array = decode_field("npy", shown[: len(data)])
    del shown
    gc.collect()
    assert gone() is None
    array[0] = array[1]  # memory of its own


def test_the_message_of_a_damaged_field_shows_its_first_bytes():
    sample = {"__key__": "a", "__url__": "a.tar", "json": b"<html>"}
    errors = []
    for value in (sample["json"], view(sample["json"])):
        with pytest.raises(DecodingError) as caught:
            Decoder().decode(sample | {"json": value})
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
