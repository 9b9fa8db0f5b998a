"""Every codec whose result can be larger than its input has the one limit, `WDS_DECOMPRESS_LIMIT`."""

import io
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from PIL import Image

from webdataset.codecs import VideoHandler, decode_field, encode_field
from webdataset.errors import DecodingError, WebDatasetError

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


def icon_bomb(name):
    """An icon of 16 x 16 pixels, as it says; the image in it has a million."""
    image = encode_field("png", np.dstack([BLACK] * 3))
    if name == "ico":
        return b"\0\0\1\0\1\0" + struct.pack("<BBBBHHII", 16, 16, 0, 0, 1, 32, len(image), 22) + image
    return b"icns" + struct.pack(">I", len(image) + 16) + b"icp4" + struct.pack(">I", len(image) + 8) + image


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


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_zipfile_decompresses_without_a_limit_is_refused(method, tmp_path, monkeypatch):
    """It makes 2 GB of 830 bytes, whatever size these claim, before it returns the first one."""
    from webdataset import interop, tools

    data = {}
    for name in ("0.npy", "a/data.pkl"):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            archive.writestr(name, bytes(5_000_000))
        packed = bytearray(stream.getvalue())
        size = packed.rindex(b"PK\x01\x02") + 24
        packed[size : size + 4] = (500_000).to_bytes(4, "little")
        data[name] = bytes(packed)
    path = tmp_path / "a.zip"
    path.write_bytes(data["0.npy"])
    reads = [
        lambda: decode_field("npz", data["0.npy"]),
        lambda: decode_field("pth", data["a/data.pkl"]),
        lambda: interop.FORMATS["zip"]().open(interop.Part(str(path))).record(0),
        lambda: interop.FORMATS["npz"]().open(interop.Part(str(path))),
        lambda: tools.create(str(path), str(tmp_path / "out.tar")),
    ]
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e6")
    for read in reads:
        with pytest.raises(WebDatasetError, match=f"the compression method {method}, expected none or deflate"):
            read()


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


@pytest.mark.parametrize("name", ["ico", "icns"])
def test_an_icon_with_a_larger_image_is_refused_before_it_is_decoded(name, monkeypatch):
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e6")
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", lambda *_: pytest.fail("the pixels were decoded"))
    with pytest.raises(DecodingError, match=r"1,000,000 bytes – raise WDS_DECOMPRESS_LIMIT"):
        decode_field("png", icon_bomb(name), "rgb8")


def test_an_honest_icon_passes():
    pixels = np.zeros((64, 64, 4), "u1") + np.uint8(200)
    for name in ("ICO", "ICNS"):
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, name)
        assert decode_field("png", stream.getvalue(), "rgba8")[0, 0].tolist() == [200] * 4


def test_a_video_is_refused_before_a_frame_is_decoded(monkeypatch):
    data = encode_field("mp4", np.zeros((1, 1000, 1000, 3), "u1"))
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e6")
    monkeypatch.setattr(VideoHandler, "_frames", lambda *_: pytest.fail("a frame was decoded"))
    with pytest.raises(DecodingError, match=r"1,000,000 bytes – raise WDS_DECOMPRESS_LIMIT"):
        decode_field("mp4", data, "video")


@pytest.mark.parametrize("field", ["jp2", "j2k"])
def test_the_tiles_of_a_jpeg_2000_are_limited(field, monkeypatch):
    """Some kilobytes of memory are needed for each, 750 MB for all that there may be, out of a hundred bytes."""
    data = bytearray(encode_field(field, np.zeros((255, 257), "u1")))
    at = data.index(b"\xff\x4f\xff\x51")
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e7")
    decode_field(field, bytes(data), "l8")
    data[at + 24 : at + 32] = struct.pack(">2I", 1, 1)
    with pytest.raises(DecodingError, match="raise WDS_DECOMPRESS_LIMIT"):
        decode_field(field, bytes(data), "l8")


def without_end(codec):
    """An array of 10¹⁸ rows, none of which has an item."""
    shape = (10**18, 0)
    if codec == "npy":
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
        return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header
    if codec == "ten":
        return encode_field("ten", [np.zeros((7, 0))]).replace(
            (7).to_bytes(8, "little"), shape[0].to_bytes(8, "little")
        )
    header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": (0, 0)}}).encode()
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize("codec", ["npy", "ten", "safetensors"])
def test_a_side_without_end_is_refused_where_another_is_zero(codec):
    """No memory is needed, but a loop over the rows would not end."""
    with pytest.raises(DecodingError, match="bytes – raise WDS_DECOMPRESS_LIMIT"):
        decode_field(codec, without_end(codec))


def test_frames_that_are_larger_than_the_file_says_are_not_decoded(monkeypatch):
    """Mutation: leave `max_pixels` out."""
    data = encode_field("mp4", np.zeros((1, 1000, 1000, 3), "u1"))
    monkeypatch.setattr("webdataset.codecs._open_media.check_size", lambda size: None)
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e6")
    with pytest.raises(DecodingError) as caught:
        decode_field("mp4", data, "video")
    assert "max_pixels" in str(caught.value)


def tiff(order, *, big, tile):
    """A TIFF of 16 x 16 pixels and one tile of this size, compressed; each tag of a side comes twice."""
    mark, entry = ("<", b"II") if order == "little" else (">", b"MM"), "HHQ8s" if big else "HHI4s"
    pack = lambda kind, *values: struct.pack(mark[0] + kind, *values)
    short, long = (lambda value: (3, pack("H", value))), (lambda value: (4, pack("I", value)))
    sides = [(322, long(tile)), (322, short(16)), (323, short(tile)), (323, long(16))]
    tags = [
        (256, short(16)),
        (257, short(16)),
        (258, short(8)),
        (259, short(8)),
        (262, short(1)),
        (277, short(1)),
        *sides,
    ]
    tags += [(324, long(8)), (325, long(8))]
    rows = [pack(entry, tag, kind, 1, value) for tag, (kind, value) in tags]
    count, at = ("Q", pack("HHHQ", 43, 8, 0, 16)) if big else ("H", pack("HI", 42, 8))
    return mark[1] + at + pack(count, len(rows)) + b"".join(rows) + bytes(8)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", ["little", "big"])
def test_a_tile_that_is_larger_than_its_image_is_limited(order, big, monkeypatch):
    """2 GB of memory out of 150 bytes. Mutation: look at one of two entries only."""
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e6")
    with pytest.raises(DecodingError) as small:
        decode_field("tiff", tiff(order, big=big, tile=256), "l8")
    assert "WDS_DECOMPRESS_LIMIT" not in str(small.value)
    with pytest.raises(DecodingError, match="raise WDS_DECOMPRESS_LIMIT"):
        decode_field("tiff", tiff(order, big=big, tile=20_000), "l8")


@pytest.mark.parametrize("field", ["jpg", "png"])
@pytest.mark.parametrize("crop", [None, "center"])
@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
def test_one_row_of_pixels_is_not_enlarged_beyond_the_limit(field, crop, interpolation):
    """224 rows as 45 GB, out of 300,000 pixels. Mutation: do not check the size."""
    from webdataset.codecs import DecodeImage

    for shape in ((1, 60_000, 3), (60_000, 1, 3)):
        data = encode_field(field, np.zeros(shape, "u1"))
        handler = DecodeImage("rgb8", size=224, crop=crop, interpolation=interpolation)
        with pytest.raises(DecodingError, match="raise WDS_DECOMPRESS_LIMIT"):
            decode_field(field, data, handler)
        assert decode_field(field, data, DecodeImage("rgb8", size=(224, 224))).shape == (224, 224, 3)
