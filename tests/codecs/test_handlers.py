"""Compressed members and the limit."""

import gzip

import pytest

from webdataset.codecs import Decoder, decode_field, encode_field, gunzip, npz_loads, numpy_npz_dumps, unzstd
from webdataset.errors import DecodingError, FormatError
from webdataset.decompress import load_zstd

zstd = load_zstd("to test")


def zst(data):
    return zstd.compress(data)


def zst_without_size(data):
    packer = zstd.ZstdCompressor()
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(("unpack", "pack"), [(gunzip, gzip.compress), (unzstd, zst), (unzstd, zst_without_size)])
class TestUnpacking:
    def test_several_members_in_a_row(self, unpack, pack):
        assert unpack(pack(b"ab") + pack(b"") + pack(b"c" * 5000)) == b"ab" + b"c" * 5000

    def test_every_truncation_is_an_error(self, unpack, pack):
        data = pack(b"hello " * 50)
        for cut in range(len(data)):
            with pytest.raises(Exception):
                if unpack(data[:cut]) is not None and cut == 0:
                    raise EOFError
        assert unpack(data) == b"hello " * 50

    def test_D56_bombs_stop_at_the_limit(self, unpack, pack, monkeypatch):
        bomb = pack(bytes(10**6))
        assert len(bomb) < 2000
        assert len(unpack(bomb, 10**6)) == 10**6
        with pytest.raises(FormatError, match="more than 999,999 bytes"):
            unpack(bomb, 999_999)
        monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e5")
        with pytest.raises(FormatError, match="100,000 bytes"):
            unpack(bomb)


def test_D56_fields_and_npz_files_have_the_limit_too(monkeypatch):
    import numpy as np

    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1000")
    with pytest.raises(DecodingError, match="1,000 bytes"):
        Decoder([])({"txt.gz": gzip.compress(bytes(2000))})
    with pytest.raises(FormatError, match="WDS_DECOMPRESS_LIMIT"):
        npz_loads(numpy_npz_dumps({"x": np.zeros(1000)}))


def test_a_wrong_checksum_is_an_error():
    data = bytearray(gzip.compress(b"hello"))
    data[-5] ^= 1
    with pytest.raises(FormatError, match="gzip stream is damaged"):
        gunzip(bytes(data))


def test_packing_is_reproducible_and_takes_a_level():
    assert encode_field("txt.gz", "x" * 1000) == encode_field("txt.gz", b"x" * 1000)
    assert len(encode_field("txt.gz", "x" * 1000)) < 35
    text = " ".join(str(n * n) for n in range(2000))
    for suffix in ("gz", "zst"):
        assert len(encode_field(f"txt.{suffix}", text, level=9)) != len(encode_field(f"txt.{suffix}", text, level=1))
        assert decode_field(f"txt.{suffix}", encode_field(f"txt.{suffix}", text, level=1)) == text
