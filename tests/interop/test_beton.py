"""FFCV's .beton: read as its own package wrote it, written and read back, and damaged."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webdataset as wds
from tests.interop.conftest import VALUES, decoded, jpeg, records_of, same
from webdataset import interop
from webdataset.interop import Beton, ImageOptions

GOLDEN = Path(__file__).parent / "golden"
PIXELS = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)


@pytest.fixture
def beton(tmp_path):
    path = tmp_path / "golden.beton"
    path.write_bytes(gzip.decompress((GOLDEN / "ffcv.beton.gz").read_bytes()))
    return path


def test_beton_of_its_own_package_is_read(beton):
    records = records_of(beton, None)
    assert [(record["i"], record["f"]) for record in records] == [(n - 2, n + 0.5) for n in range(5)]
    assert [record["b"] for record in records] == [b"bytes%d" % n + b"x" * n for n in range(5)]
    assert [record["j"] for record in records] == [{"a": [n, "é"]} for n in range(5)]
    assert same(records[3]["nd"], np.arange(6, dtype=np.int16).reshape(2, 3) + np.int16(3))
    assert same(records[3]["t"], np.arange(4).reshape(2, 2) + 3)
    assert [record["raw"].shape for record in records] == [(6 + n, 8, 3) for n in range(5)]
    assert all(record["jpg"][:3] == record["smart"][:3] == b"\xff\xd8\xff" for record in records)
    assert {type(record["prop"]) for record in records} == {bytes, np.ndarray}
    assert records[0]["raw"][0, 0].tolist() == [94, 129, 193]


FIELDS = {
    "i": VALUES["i"],
    "f": st.binary(min_size=8, max_size=8).map(lambda b: float(np.frombuffer(b, "<f8")[0])),
    "b": VALUES["b"],
    "j": VALUES["j"],
    "v": st.lists(st.integers(0, 255), min_size=3, max_size=3).map(lambda v: np.array(v, np.int32)),
}


@settings(max_examples=15)
@given(st.lists(st.fixed_dictionaries(FIELDS), min_size=1, max_size=5))
def test_beton_comes_back_bit_for_bit(rows):
    interop.write(rows, "memory://beton/a.beton", Beton(page_size=1 << 21))
    assert all(map(same, records_of("memory://beton/a.beton", None), rows))


@pytest.mark.parametrize("mode", ["raw", "jpg", "smart", "proportion"])
def test_images_in_a_beton(tmp_path, mode):
    rows = [{"jpg": jpeg(n, (8 + n, 10)), "cls": n} for n in range(12)]
    path = str(tmp_path / "a.beton")
    interop.write(rows, path, Beton(page_size=1 << 21, image=ImageOptions(mode, threshold=400)))
    images = [record["jpg"] for record in records_of(path, None)]
    pixels = [decoded(row["jpg"]) for row in rows]
    stored = [isinstance(image, bytes) for image in images]
    wanted = {"raw": [False] * 12, "jpg": [True] * 12, "smart": [p.nbytes > 400 for p in pixels]}
    assert stored == wanted.get(mode, stored)
    assert len(set(stored)) == (2 if mode in {"smart", "proportion"} else 1)
    for image, row, picture in zip(images, rows, pixels, strict=True):
        assert image == row["jpg"] if isinstance(image, bytes) else same(image, picture)


def test_large_images_are_shrunk(tmp_path):
    interop.write(
        [{"jpg": jpeg(0, (40, 80))}], str(tmp_path / "a.beton"), Beton(image=ImageOptions("raw", max_resolution=20))
    )
    assert records_of(tmp_path / "a.beton", None)[0]["jpg"].shape == (10, 20, 3)


def test_samples_do_not_straddle_pages(tmp_path):
    rows = [{"b": bytes([n]) * (900_000)} for n in range(7)]
    interop.write(rows, str(tmp_path / "a.beton"), Beton(page_size=1 << 21))
    assert same(records_of(tmp_path / "a.beton", None), rows)
    with open(tmp_path / "a.beton", "rb") as stream:
        data = stream.read()
    table = np.frombuffer(data[int.from_bytes(data[16:24], "little") :], "<u8").reshape(-1, 3)
    assert all(start >> 21 == (start + size - 1) >> 21 for _, start, size in table.tolist())
    with pytest.raises(wds.EncodingError, match="more than a page"):
        interop.write([{"b": bytes(3 << 20)}], str(tmp_path / "b.beton"), Beton(page_size=1 << 21))
    assert not (tmp_path / "b.beton").exists()


def test_a_beton_of_another_version_is_an_error(beton):
    data = bytearray(beton.read_bytes())
    data[0] = 1
    beton.write_bytes(data)
    with pytest.raises(wds.FormatError, match=r"expected version 2 of the format, got 1 – .*golden.beton, byte 0"):
        records_of(beton, None)


def test_an_incomplete_beton_is_an_error(beton):
    data = beton.read_bytes()
    beton.write_bytes(data[:16] + bytes(8) + data[24:])  # as FFCV leaves it when it is interrupted
    with pytest.raises(wds.FormatError, match="byte 16 – the file is truncated"):
        records_of(beton, None)
    for size in (10, 5000, 3 << 20):
        beton.write_bytes(data[:size])
        with pytest.raises(wds.FormatError, match="golden.beton"):
            records_of(beton, None)


def test_a_bad_address_in_a_beton_names_record_and_byte(beton):
    data = bytearray(beton.read_bytes())
    start = 24 + 10 * 1041 + 120 * 2 + 29  # the third row, the address of the field b
    data[start : start + 8] = b"\xff" * 8
    beton.write_bytes(data)
    with pytest.raises(wds.FormatError, match=r"record 2: field b: .* – .*golden.beton, byte 10674"):
        records_of(beton, None)
