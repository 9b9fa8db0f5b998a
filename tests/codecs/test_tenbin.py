"""tenbin, byte for byte."""

import io
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from webdataset.codecs import tenbin, tenbin_dumps, tenbin_loads
from webdataset.errors import EncodingError, FormatError, SpecError

GOLDEN = bytes.fromhex(
    "7e54656e42696e7e 2000000000000000 6634000000000000 6100000000000000 0100000000000000 0300000000000000"
    + "00" * 32
    + "7e54656e42696e7e 0c00000000000000 00000000 0000803f 00000040"
    + "00" * 52
)
array = np.arange(3, dtype="f4")


def test_golden_bytes():
    assert tenbin.encode_buffer([array], ["a"]) == GOLDEN
    assert len(GOLDEN) == 160
    arrays, infos = tenbin.decode_buffer(GOLDEN, infos=True)
    assert infos == ["a"]
    assert np.array_equal(arrays[0], array)
    assert len(tenbin_dumps(np.zeros(3, "i2"))) == 160


def test_golden_multipart():
    parts = [bytes(part) for part in tenbin.encode_list([array, np.array([[1, 2]], "i4")], ["x", "y"])]
    assert [part.hex() for part in parts] == [
        "6634000000000000780000000000000001000000000000000300000000000000",
        "000000000000803f00000040",
        "69340000000000007900000000000000020000000000000001000000000000000200000000000000",
        "0100000002000000",
    ]


def test_D35_uint32_and_every_other_code():
    assert tenbin.long_to_short["uint32"] == "u4"
    assert tenbin.short_to_long["u4"] == "uint32"
    for long, short in tenbin.long_to_short.items():
        assert tenbin.short_to_long[short] == long
        value = torch.ones(2, dtype=torch.bfloat16) if long == "bfloat16" else np.ones(2, long)
        (back,) = tenbin_loads(tenbin_dumps(value))
        assert back.dtype == value.dtype
        assert (back == value).all()
    assert np.array_equal(tenbin_loads(tenbin_dumps(np.arange(3, dtype=">u4")))[0], np.arange(3))


def test_D35_arrays_without_dimensions():
    (back,) = tenbin_loads(tenbin_dumps(np.array(7, "u4")))
    assert back.shape == ()
    assert back == 7


def test_D35_a_list_of_infos_is_required():
    data = tenbin.encode_buffer([array, array], ["a", "b"])
    assert len(tenbin.decode_buffer(data, infos=["a", "b"])) == 2
    assert len(tenbin.decode_buffer(data, infos=False)) == 2
    for wrong in (["a"], ["b", "a"], []):
        with pytest.raises(FormatError, match="are required"):
            tenbin.decode_buffer(data, infos=wrong)
    with pytest.raises(SpecError):
        tenbin.decode_buffer(data, infos="ab")


def test_D35_infos_that_do_not_fit():
    assert tenbin.decode_buffer(tenbin.encode_buffer([array], ["12345678"]), infos=True)[1] == ["12345678"]
    with pytest.raises(EncodingError, match="at most 8 characters"):
        tenbin.encode_buffer([array], ["123456789"])
    with pytest.raises(EncodingError, match="ASCII"):
        tenbin.encode_buffer([array], ["é"])
    with pytest.raises(EncodingError, match="1 arrays have 2 infos"):
        tenbin.encode_buffer([array], ["a", "b"])


def test_results_are_copies_that_can_be_written_to():
    buffer = bytearray(GOLDEN)
    (back,) = tenbin.decode_buffer(buffer)
    back += 1
    assert buffer == GOLDEN


def test_small_functions():
    assert tenbin.magic == 9110334830257984638
    assert (tenbin.magic_str, tenbin.magic_bytes) == ("~TenBin~", b"~TenBin~")
    assert tenbin.unstr64(tenbin.str64("abc")) == "abc"
    assert (tenbin.str64("abc"), tenbin.roundup(65), tenbin.roundup(64, 32)) == (6513249, 128, 64)
    assert tenbin.bytelen(np.zeros((2, 3))) == 48
    assert bytes(tenbin.bytedata(np.array([[1], [2]], "u1"))) == b"\1\2"
    assert tenbin.decode_header(tenbin.encode_header(np.zeros((2, 3), "f4"), "a")) == ((2, 3), np.dtype("f4"), "a")
    tenbin.check_acceptable_input_type([array], False)
    for wrong, allow64 in ((np.zeros(2), False), (np.array(["a"]), True), (np.zeros(2, "i8"), False)):
        with pytest.raises(ValueError):
            tenbin.check_acceptable_input_type([wrong], allow64)


def test_streams_and_files(tmp_path):
    stream = io.BytesIO()
    tenbin.write(stream, [array, array + 1, array + 2], ["a", "b", "c"])
    stream.seek(0)
    assert [each[0] for each in tenbin.read(stream, 2)] == [0, 1]
    assert tenbin.read(stream, infos=True)[1] == ["c"]
    assert tenbin.read(stream) == []
    tenbin.save(tmp_path / "x.ten", array, array, infos=["a", "b"])
    assert len(tenbin.load(str(tmp_path / "x.ten"), infos=["a", "b"])) == 2
    tenbin.save(tmp_path / "x.bin", array, nocheck=True)
    assert len(tenbin.load(tmp_path / "x.bin", nocheck=True)) == 1
    for function in (tenbin.save, tenbin.load):
        with pytest.raises(SpecError, match=r"\.ten"):
            function(tmp_path / "x.bin")


def header(*words):
    return tenbin.encode_chunks([struct.pack(f"<8s8s{len(words)}q", b"f4", b"", *words), b""])


@pytest.mark.parametrize(
    "hostile",
    [
        *(b"x", b"~TenBin~", b"~TenBin~" + bytes(7), b"~TenBin!" + bytes(8), GOLDEN[:-1], GOLDEN[:80], GOLDEN[64:]),
        *(b"~TenBin~" + struct.pack("<q", size) for size in (-1, 2**40, 2**63 - 1, 100)),
        *(header(ndim) for ndim in (-1, 1, 10, 2**40)),
        *(header(1, size) for size in (-1, 3, 2**60)),
        *(header(2, 2**32, 2**32), header(2, -1, -1), tenbin.encode_chunks([b"short", b""])),
        GOLDEN.replace(b"f4", b"q9"),
        GOLDEN.replace(b"f4", b"\xff4"),
    ],
)
def test_hostile_buffers_are_format_errors(hostile):
    with pytest.raises(FormatError):
        tenbin.decode_buffer(hostile)
    with pytest.raises(FormatError):
        tenbin.read(io.BytesIO(hostile))


@given(st.integers(0, len(GOLDEN) - 1), st.binary(min_size=1, max_size=9))
def test_damage_is_noticed_or_harmless(position, damage):
    data = GOLDEN[:position] + damage + GOLDEN[position + len(damage) :]
    try:
        tenbin_loads(data)
    except FormatError:
        pass
