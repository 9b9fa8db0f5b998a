"""Every codec whose result can be larger than its input has the one limit, `WDS_DECOMPRESS_LIMIT`."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from webdataset.codecs import decode_field, encode_field
from webdataset.errors import DecodingError

torch = pytest.importorskip("torch")


def pth_bomb():
    """What `torch.save` writes, with its files compressed: torch reads that too."""
    stream, packed = io.BytesIO(), io.BytesIO()
    torch.save({"x": torch.zeros(500_000)}, stream)
    with zipfile.ZipFile(stream) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    assert len(packed.getvalue()) < 20_000
    return packed.getvalue()


SILENCE = (np.zeros((1, 400_000), np.float32), 8000)
BLACK = np.zeros((1000, 1000), "u1")
BOMBS = {
    "txt.gz": lambda: encode_field("txt.gz", b" " * 2_000_000),
    "txt.zst": lambda: encode_field("txt.zst", b" " * 2_000_000),
    "npz": lambda: encode_field("npz", {"x": np.zeros(250_000)}),
    "pth": pth_bomb,
    **{
        name: lambda name=name: encode_field(name, np.dstack([BLACK] * 3))
        for name in ("jpg", "png", "webp", "bmp", "tiff", "gif")
    },
    **{name: lambda name=name: encode_field(name, SILENCE) for name in ("wav", "flac", "ogg")},
    "mp4": lambda: encode_field("mp4", np.zeros((10, 256, 256, 3), "u1")),
}
HANDLERS = {"jpg": "rgb8", "png": "rgb8", "webp": "rgb8", "bmp": "rgb", "tiff": "torchrgb", "gif": "pil"}
HANDLERS |= dict.fromkeys(["wav", "flac", "ogg"], "audio") | {"mp4": "video"}


@pytest.mark.parametrize("field", BOMBS)
def test_a_field_stops_at_the_limit(field, monkeypatch):
    data = BOMBS[field]()
    handlers = [HANDLERS[field]] if field in HANDLERS else []
    decode_field(field, data, *handlers)
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e6")
    with pytest.raises(DecodingError, match=r"1,000,000 bytes – raise WDS_DECOMPRESS_LIMIT"):
        decode_field(field, data, *handlers)


@pytest.mark.parametrize("field", ["jpg", "png"])
def test_crops_stop_at_the_limit_too(field, monkeypatch):
    from webdataset.codecs import DecodeImage

    data = BOMBS[field]()
    handler = DecodeImage("rgb8", size=64)
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e6")
    with pytest.raises(DecodingError, match="WDS_DECOMPRESS_LIMIT"):
        decode_field(field, data, handler)


def test_a_zip_that_claims_to_be_small_is_not_unpacked(monkeypatch):
    """`ZipFile.read` unpacks all that is stored before it looks at the size."""
    data = bytearray(encode_field("npz", {"x": np.zeros(10_000_000)}))
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = (100).to_bytes(4, "little")
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e6")
    tracemalloc.start()
    try:
        with pytest.raises(DecodingError):
            decode_field("npz", bytes(data))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_a_zip_with_two_directories_is_limited_too(monkeypatch):
    """The sizes that are checked are those of the directory that is read."""
    data = pth_bomb()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        start = archive.start_dir
    end = data.rindex(b"PK\5\6")
    small = bytearray(data[start:end])
    for at in (at for at in range(len(small)) if small[at : at + 4] == b"PK\1\2"):
        small[at + 24 : at + 28] = (10).to_bytes(4, "little")
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e6")
    with pytest.raises(DecodingError):
        decode_field("pth", data[:end] + bytes(small) + data[end:])


@pytest.mark.parametrize("kind", ["<U0", "|S0", "|V0"])
def test_items_without_a_size_are_refused(kind):
    """NumPy makes them larger, and allocates memory for as many as the header claims."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': (1000000000,), }}".encode().ljust(117) + b"\n"
    with pytest.raises(DecodingError, match="1,000,000,000 npy items without a size"):
        decode_field("npy", b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header)
