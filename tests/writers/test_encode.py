"""What `encoder=` may be."""

import gzip

import numpy as np
import pytest

from webdataset.errors import EncodingError, SpecError
from webdataset.writers import make_encoder


def test_by_extension_leaves_bytes_and_meta_fields_alone():
    sample = {"__key__": "a", "__url__": "u", "jpg": b"\xff\xd8", "x.json": [1], "txt": "ü"}
    encoded = {"__key__": "a", "__url__": "u", "jpg": b"\xff\xd8", "x.json": b"[1]", "txt": "ü".encode()}
    assert make_encoder(True)(sample) == encoded
    assert sample["x.json"] == [1], "the caller's sample stays as it was"


@pytest.mark.parametrize("spec", [False, None])
def test_without_encoder_the_sample_passes(spec):
    sample = {"__key__": "a", "json": [1]}
    assert make_encoder(spec)(sample) is sample


def test_a_table_is_the_only_encoder():
    encode = make_encoder({"foo": lambda value: repr(value).encode()})
    sample = {"__key__": "a", "foo": [1], "x.foo": [2], "bin": b"b", "text": "str"}
    assert encode(sample) == {"__key__": "a", "foo": b"[1]", "x.foo": b"[2]", "bin": b"b", "text": b"str"}
    with pytest.raises(EncodingError, match=r"no encoder found.*field json"):
        encode({"__key__": "a", "json": [1]})


def test_a_table_compresses_what_its_name_says():
    encoded = make_encoder({"foo": lambda value: b"%d" % value})({"__key__": "a", "foo.gz": 7})
    assert gzip.decompress(encoded["foo.gz"]) == b"7"


def test_a_callable_gets_the_whole_sample():
    encode = make_encoder(lambda sample: {"__key__": sample["__key__"] + "x", "txt": b"1"})
    assert encode({"__key__": "a"}) == {"__key__": "ax", "txt": b"1"}


def test_D59_options_by_extension_or_field():
    encode = make_encoder(True, {"jpg": {"quality": 90}, "small.jpg": {"quality": 10}})
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    encoded = encode({"__key__": "k", "large.jpg": noise, "small.jpg": noise})
    assert len(encoded["small.jpg"]) * 2 < len(encoded["large.jpg"])


def test_an_error_names_the_field():
    with pytest.raises(EncodingError, match="field cls"):
        make_encoder(True)({"__key__": "k", "cls": None})


def test_errors_of_own_functions_say_where():
    with pytest.raises(EncodingError, match=r"ZeroDivisionError.*field foo") as caught:
        make_encoder({"foo": lambda value: 1 / value})({"__key__": "k", "foo": 0})
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("spec", [3, "rgb", [1], {"foo": 3}])
def test_wrong_encoders_fail_at_once(spec):
    with pytest.raises(SpecError, match="encoder"):
        make_encoder(spec)


def test_options_need_the_encoder_that_takes_them():
    with pytest.raises(SpecError, match="encoder_options"):
        make_encoder(False, {"jpg": {"quality": 3}})
    with pytest.raises(SpecError, match="keyword arguments"):
        make_encoder(True, {"jpg": 90})


@pytest.mark.parametrize("name", ["left.imu.z", "imu.z", "z"])
@pytest.mark.parametrize("field", ["left.imu.z", "Left.IMU.Z", "left.imu.z.gz"])
def test_an_encoder_is_found_by_any_end_of_the_field_name(name, field):
    encoded = make_encoder({name: lambda value: b"%d" % value})({"__key__": "a", field: 7})[field]
    assert (gzip.decompress(encoded) if field.endswith("gz") else encoded) == b"7"


def test_the_longest_name_decides():
    encode = make_encoder({"z": lambda _: b"short", "imu.z": lambda _: b"long", "gz": lambda _: b"packed"})
    assert encode({"__key__": "a", "imu.z": 1, "z": 1, "aimu.z": 1, "z.gz": 1}) == {
        **{"__key__": "a", "imu.z": b"long", "z": b"short", "aimu.z": b"short", "z.gz": b"packed"}
    }


def test_the_error_names_the_argument_to_pass():
    with pytest.raises(EncodingError, match=r"no encoder found for imu.z – .*encoder=\{.*'imu.z': function\}"):
        make_encoder(True)({"__key__": "a", "imu.z": 7})
