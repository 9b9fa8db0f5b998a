"""The decoder and its handlers."""

import gzip
import pickle

import numpy as np
import pytest

from webdataset.codecs import (
    Continue,
    Decoder,
    ImageHandler,
    basichandlers,
    call_extension_handler,
    decode_field,
    decoders,
    default_decoder,
    default_post_handlers,
    default_pre_handlers,
    encode_field,
    gzfilter,
    handle_extension,
    torch_audio,
    torch_video,
)
from webdataset.errors import DecodingError, SpecError

PNG = encode_field("png", np.full((2, 3, 3), 9, "u1"))


def test_every_kind_of_field():
    sample = {"__key__": b"k", "__n__": 3, "_x": b"raw", "x.txt": b"hi", "a.TXT": b"z", "b.cls": b" 3 ", "other": b"q"}
    assert Decoder([])(sample) == {
        **{"__key__": "k", "__n__": 3, "_x": b"raw", "x.txt": "hi", "a.TXT": "z", "b.cls": 3, "other": b"q"},
    }
    assert sample["b.cls"] == b" 3 ", "the sample that came in is left alone"


def test_null_is_a_value():
    assert Decoder([])({"json": b"null"}) == {"json": None}


def test_first_handler_wins_none_declines_and_continue_goes_on_with_the_following():
    seen = []

    def first(key, data):
        seen.append(("first", key))
        return Continue(".cls", data + b"1") if key == ".num" else None

    def second(key, data):
        seen.append(("second", key))
        return "mine" if key == ".mine" else None

    assert Decoder([first, second])({"num": b"2", "mine": b"", "txt": b"t"}) == {"num": 21, "mine": "mine", "txt": "t"}
    assert seen == [(who, key) for key in (".num", ".mine", ".txt") for who in ("first", "second")][:1] + [
        ("second", ".cls"),
        ("first", ".mine"),
        ("second", ".mine"),
        ("first", ".txt"),
        ("second", ".txt"),
    ]


def test_only_and_partial():
    sample = {"x.txt": b"a", "txt": b"b", "cls": b"1"}
    assert Decoder([], only="x.txt cls")(sample) == {"x.txt": "a", "txt": b"b", "cls": 1}
    assert Decoder([], only=["x.txt"])(sample) == {"x.txt": "a", "txt": b"b", "cls": b"1"}
    assert Decoder([], partial=True)({"txt": b"a", "npy": 3}) == {"txt": "a", "npy": 3}
    for decoder, value in ((Decoder([]), 3), (Decoder([]), None), (Decoder([], partial=True), None)):
        with pytest.raises(DecodingError, match="expected bytes"):
            decoder({"txt": value})


def test_pre_and_post_replace_the_defaults():
    packed = gzip.compress(b"3")
    assert Decoder([], pre=[])({"cls.gz": packed}) == {"cls.gz": packed}
    assert Decoder([], post=[])({"cls.gz": packed, "txt": b"t"}) == {"cls.gz": b"3", "txt": b"t"}
    assert Decoder([], None, [lambda key, data: key], "txt", False)({"txt": b"", "cls": b"1"}) == {
        "txt": ".txt",
        "cls": b"1",
    }
    assert default_pre_handlers[0] is gzfilter
    assert default_post_handlers == [basichandlers]
    assert default_decoder({"cls": b"3"}) == {"cls": 3}


def test_seed_form_functions_as_arguments_applied_to_a_dataset():
    def my_png_decoder(key, value):
        return f"png of {len(value)}" if key.endswith(".png") else None

    dataset = [{"png": b"12345", "cls": b"1"}, {"png": b"1", "cls": b"2"}]
    decoded = Decoder(my_png_decoder, torch_video, torch_audio)(dataset)
    for _ in range(2):
        assert list(decoded) == [{"png": "png of 5", "cls": 1}, {"png": "png of 1", "cls": 2}]
    assert next(Decoder(handle_extension(".png", len))(iter(dataset))) == {"png": 5, "cls": 1}

    class Pipeline:
        def compose(self, stage):
            return list(stage(iter(dataset)))

    assert Decoder(handle_extension(".png", len))(Pipeline()) == [{"png": 5, "cls": 1}, {"png": 1, "cls": 2}]


def test_D48_extensions_match_trailing_components_with_or_without_a_leading_dot():
    for spelled in ("png left.jpg", ".png .left.jpg", "PNG Left.Jpg"):
        handler = handle_extension(spelled, lambda data: ("got", data))
        for key in (".png", ".a.png", ".left.jpg", ".x.left.jpg", "png", ".LEFT.JPG"):
            assert handler(key, b"1") == ("got", b"1")
        for key in (".jpg", ".xpng", ".png.gz", ".right.jpg"):
            assert handler(key, b"1") is None
    assert call_extension_handler(".a.png", b"12", len, ["png"]) == 2
    assert ImageHandler("RGB8")(".PNG", PNG).shape == (2, 3, 3)
    assert decode_field("png", PNG, "PIL").mode == "RGB"
    assert decode_field("png", PNG, "rgbtorch").shape == (3, 2, 3)


def test_a_function_under_an_extension_may_still_decline():
    assert decode_field("cls", b"3", handle_extension("cls", lambda data: None)) == 3


def test_gzfilter_alone():
    result = gzfilter(".txt.gz", gzip.compress(b"hi"))
    assert (result.key, result.data) == (".txt", b"hi")
    assert gzfilter(".txt", b"") is None


def test_subclasses_replace_decode1():
    class Loud(Decoder):
        def decode1(self, key, data):
            return data.upper() if key == "txt" else super().decode1(key, data)

    assert Loud([])({"txt": b"a", "cls": b"1"}) == {"txt": b"A", "cls": 1}
    assert Decoder([]).decode1("x.cls", b"4") == 4


def test_values_that_are_not_bytes_reach_the_handlers_of_decode1():
    assert Decoder([lambda key, data: data * 2 if key == ".n" else None]).decode1("n", 21) == 42


def test_the_table_and_the_handlers_may_change_while_decoding(monkeypatch):
    decoder = Decoder([])
    assert decoder({"xyz": b"1"}) == {"xyz": b"1"}
    monkeypatch.setitem(decoders, "xyz", int)
    assert decoder({"xyz": b"1"}) == {"xyz": 1}
    decoder.handlers.insert(0, lambda key, data: "always")
    assert decoder({"xyz": b"1"}) == {"xyz": "always"}


def test_decoders_pickle():
    decoder = pickle.loads(pickle.dumps(Decoder(["rgb8", handle_extension("abc", len)], only="png abc")))
    assert decoder({"png": PNG, "abc": b"123", "cls": b"1"})["abc"] == 3


def test_D39_errors_name_field_key_shard_cause_and_the_first_bytes():
    sample = {"__key__": "0001", "__url__": "a.tar", "x.jpg": b"<html>not found"}
    with pytest.raises(DecodingError) as caught:
        Decoder(["rgb8"])(sample)
    error = caught.value
    assert (error.url, error.key, error.k, error.sample) == ("a.tar", "0001", "x.jpg", sample)
    assert isinstance(error, ValueError)
    assert error.__cause__ is not None
    for word in (
        "x.jpg",
        "'<html>not found'",
        "sample 0001",
        "a.tar",
        "UnidentifiedImageError",
        "wds get 0001 x.jpg a.tar",
    ):
        assert word in str(error)
    assert "0x" not in str(error)  # an address in memory differs from run to run
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    with pytest.raises(DecodingError, match="the field is empty"):
        Decoder([])({"json": b""})


@pytest.mark.parametrize(
    "data", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{}", b"PK\x03\x04", b"~TenBin~", b"\xff" * 50]
)
@pytest.mark.parametrize("field", sorted(set(decoders) - {"txt", "text", "transcript", "html", "htm"}))
def test_nonsense_is_a_decoding_error(field, data):
    if field in ("cls", "jsonl", "ten", "tenbin", "tb", "ndjson") and data == b"":
        pytest.skip("nothing is a list of nothing")
    try:
        Decoder([])({field: data})
    except (DecodingError, ValueError):
        return
    assert field in ("mp", "msgpack", "msg", "cbor", "ten", "tb", "tenbin", "jsonl", "ndjson"), (
        "these have one-byte values"
    )


@pytest.mark.parametrize("wrong", [3, [3], None])
def test_D49_wrong_handlers_fail_at_construction(wrong):
    with pytest.raises(SpecError):
        Decoder([wrong])
    with pytest.raises(SpecError):
        handle_extension("png", wrong)
    with pytest.raises(SpecError, match="Unknown imagespec"):
        Decoder(["no such spec"])


@pytest.mark.parametrize("wrong", [3, "text", b"bytes", None])
def test_D49_only_samples_can_be_decoded(wrong):
    with pytest.raises(SpecError, match="expected a sample"):
        Decoder([])(wrong)
    with pytest.raises(SpecError, match="expected a sample"):
        list(Decoder([])(iter([wrong])))


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"12 or 13", "'12 or 13'"),
        (b"\xff\xd8\xff\x00", "ff d8 ff 00"),
        (b"a\x00b", "61 00 62"),
        (b"\xc3\xa9", "c3 a9"),
    ],
)
def test_the_first_bytes_are_text_if_they_can_be_printed(data, shown):
    with pytest.raises(DecodingError, match=rf"starts with {shown}\).* – skip such samples with handler="):
        Decoder([])({"cls": data})
