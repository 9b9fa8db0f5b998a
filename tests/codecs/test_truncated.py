"""Every kind of file, cut at every byte: an error of ours, or the same value as that of the whole file. Never less."""

import io
from contextlib import suppress

import numpy as np
import pytest
import torch

from webdataset.codecs import (
    AUDIO_EXTENSIONS,
    IMAGE_FORMATS,
    VIDEO_EXTENSIONS,
    DecodeImage,
    decode_field,
    decoders,
    encode_field,
)
from webdataset.codecs._media_length import check_length
from webdataset.errors import DecodingError, FormatError

av = pytest.importorskip("av")
soundfile = pytest.importorskip("soundfile")
images = pytest.importorskip("PIL.Image")

TIMES = np.arange(1500)
SOUND = np.stack([np.sin(TIMES / 20), np.cos(TIMES / 15)]).astype("f4") / 2
PICTURE = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
FILM = np.broadcast_to(np.arange(0, 250, 50, dtype="u1")[:, None, None, None], (5, 32, 48, 3))


def saved(format, picture=PICTURE, **options):
    stream = io.BytesIO()
    images.fromarray(picture).save(stream, format, **options)
    return stream.getvalue()


class Pipe:
    """A file that cannot go back to write its length."""

    def __init__(self):
        self._written = bytearray()

    def write(self, data):
        self._written += bytes(data)
        return len(data)

    def getvalue(self):
        return bytes(self._written)


def film(format, codec, into=io.BytesIO, **options):
    """Frames as PyAV writes them."""
    stream = into()
    with av.open(stream, "w", format=format, options={"fflags": "+bitexact", **options}) as container:
        track = container.add_stream(codec, rate=10)
        track.height, track.width, track.pix_fmt = 32, 48, "yuv420p"
        for frame in FILM:
            container.mux(track.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        container.mux(track.encode())
    return stream.getvalue()


def sound(format, codec, sample_format="fltp", length=1500, into=io.BytesIO, **options):
    """A waveform as PyAV writes it."""
    stream = into()
    with av.open(stream, "w", format=format, options={"fflags": "+bitexact", **options}) as container:
        track = container.add_stream(codec, rate=8000, layout="stereo", format=sample_format, bit_rate=64000)
        wave = SOUND[:, :length]
        if not sample_format.endswith("p"):
            wave = (wave.T.reshape(1, -1) * 2**30).astype("i4")
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(wave), format=sample_format, layout="stereo")
        frame.rate = 8000
        container.mux(track.encode(frame))
        container.mux(track.encode())
    return stream.getvalue()


def unsized(webm):
    """What a browser records: nothing knows its size before it is over."""
    segment = webm.index(b"\x18\x53\x80\x67")
    return webm[: segment + 4] + b"\x01" + b"\xff" * 7 + webm[segment + 12 :]


VALUES = {
    "pkl": {"a": [1, "x"], "b": np.arange(3)},
    "pth": {"w": torch.arange(5)},
    "safetensors": {"w": np.arange(5)},
    "npy": np.arange(5),
    "npz": {"x": np.arange(5), "y": np.arange(3)},
    "ten": [np.arange(5)],
    "mp": {"a": [1, "x"]},
    "cbor": {"a": [1, "x"]},
    "json": {"a": [1, "x"]},
    **{name: (SOUND, 8000) for name in ("flac", "mp3", "ogg")},
    "wav": (SOUND[:, :200], 8000),
    "opus": (SOUND, 48000),
    **{name: PICTURE for name in ("jpg", "png", "webp", "avif", "bmp", "gif", "ppm", "tif", "tga", "jp2")},
    "pgm": PICTURE[..., 0],
    "pbm": PICTURE[..., 0] > 99,
    **{name: FILM for name in ("mp4", "mov", "mkv", "webm", "avi")},
}
FILES = {
    **{name: lambda name=name: (name, encode_field(name, VALUES[name])) for name in VALUES},
    "json.gz": lambda: ("json.gz", encode_field("json.gz", {"a": 1})),
    "json.zst": lambda: ("json.zst", encode_field("json.zst", {"a": 1})),
    "wav, 16 bits": lambda: ("wav", encode_field("wav", ((SOUND[:, :200] * 9999).astype("i2"), 8000))),
    "wav, odd size": lambda: ("wav", encode_field("wav", (SOUND[0, :99], 8000), subtype="PCM_U8")),
    "progressive jpg": lambda: ("jpg", saved("JPEG", progressive=True)),
    "grey png": lambda: ("png", saved("PNG", PICTURE[..., 0])),
    "lossless webp": lambda: ("webp", saved("WEBP", lossless=True)),
    **{
        f"tiff, {name}": lambda name=name: ("tif", saved("TIFF", compression=name))
        for name in ("tiff_lzw", "tiff_deflate", "jpeg", "packbits")
    },
    "tga, compressed": lambda: ("tga", saved("TGA", compression="tga_rle")),
    "plain j2k": lambda: ("j2k", saved("JPEG2000", no_jp2=True)),
    "smooth j2k": lambda: ("j2k", saved("JPEG2000", PICTURE * 0, no_jp2=True)),
    "pcx": lambda: ("pcx", saved("PCX")),
    "sgi": lambda: ("sgi", saved("SGI")),
    "qoi": lambda: ("qoi", saved("QOI")),
    "dds": lambda: ("dds", saved("DDS")),
    "ico": lambda: ("ico", saved("ICO", np.kron(PICTURE, np.ones((3, 3, 1), "u1")))),
    "mp4, index first": lambda: ("mp4", film("mp4", "libx264", movflags="empty_moov+frag_keyframe")),
    "webm, unknown size": lambda: ("webm", unsized(encode_field("webm", FILM))),
    "m4v": lambda: ("m4v", encode_field("m4v", FILM)),
    "wmv": lambda: ("wmv", film("asf", "wmv2")),
    "m4a": lambda: ("m4a", sound("ipod", "aac")),
    "wma": lambda: ("wma", sound("asf", "wmav2")),
    "sox": lambda: ("sox", sound("sox", "pcm_s32le", "s32", 200)),
}
# Texts, lists of lines, and frames one after the other: nothing in them says how many there were.
WITHOUT_LENGTH = {"aac", "mpeg", "mpg", "h264", "mjpeg", "jsonl", "txt", "cls"}
THEORA = {"ogv"}  # Ogg as the others; PyAV has no encoder for it
ALIASES = {"jpg": "jpeg jpe jfif img image", "bmp": "dib", "ppm": "pnm", "tif": "tiff", "jp2": "j2k"}
IMAGE_SPECS = ("rgb8", "pil", DecodeImage("rgb8", size=5))


def handlers(field):
    if field in AUDIO_EXTENSIONS or field in VIDEO_EXTENSIONS:
        return ["audio" if field in AUDIO_EXTENSIONS else "video"]
    return [None] if field.split(".")[0] in decoders else list(IMAGE_SPECS)


def decoded(field, data, handler):
    return comparable(decode_field(field, data, *([] if handler is None else [handler])))


def comparable(value):
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(each) for each in value]
    return np.asarray(value).tolist() if hasattr(value, "__array__") or hasattr(value, "getbands") else value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_was_cut_is_an_error_or_complete(kind):
    field, data = FILES[kind]()
    for handler in handlers(field):
        whole = decoded(field, data, handler)
        for cut in range(field == "ten", len(data)):  # no bytes are no arrays
            try:
                assert decoded(field, data[:cut], handler) == whole, f"{kind} decodes from {cut} of {len(data)} bytes"
            except DecodingError as error:
                assert error.hint


def test_every_kind_that_knows_its_length_is_tested():
    tested = {kind for kind in FILES if kind.isalnum()} | WITHOUT_LENGTH | THEORA
    tested |= {alias for kind, aliases in ALIASES.items() if kind in tested for alias in aliases.split()}
    by_table = {decoders[name] for name in tested if name in decoders}
    assert set(decoders.values()) == by_table
    assert set(IMAGE_FORMATS) | set(AUDIO_EXTENSIONS) | set(VIDEO_EXTENSIONS) <= tested


def test_the_error_of_a_short_sound_says_how_much_is_missing():
    data = encode_field("wav", (SOUND, 8000))
    with pytest.raises(DecodingError, match=f"truncated: expected at least {len(data):,} bytes, got 1,000 – copy or"):
        decode_field("wav", data[:1000], "audio")


@pytest.mark.parametrize(
    ("field", "format", "codec"),
    [("mkv", "matroska", "libx264"), ("webm", "webm", "libvpx-vp9"), ("avi", "avi", "mpeg4"), ("wmv", "asf", "wmv2")],
)
def test_a_film_that_was_written_to_a_pipe_is_complete(field, format, codec):
    assert len(decode_field(field, film(format, codec, Pipe), "video")[0]) == len(FILM)


@pytest.mark.parametrize(
    ("field", "format", "codec", "sample_format"),
    [("wma", "asf", "wmav2", "fltp"), ("sox", "sox", "pcm_s32le", "s32"), ("wav", "wav", "pcm_s32le", "s32")],
)
def test_a_sound_that_was_written_to_a_pipe_is_complete(field, format, codec, sample_format):
    piped, stored = (sound(format, codec, sample_format, into=into) for into in (Pipe, io.BytesIO))
    assert decoded(field, piped, "audio") == decoded(field, stored, "audio")


@pytest.mark.parametrize("tag", [b"", b"ID3\4\0\0\0\0\1\0" + bytes(128)])
def test_an_mp3_is_as_long_as_its_header_counts(tag):
    """Without the header, soundfile's number of samples is a guess."""
    with_header, without = (sound("mp3", "libmp3lame", write_xing=wanted, id3v2_version="0") for wanted in "10")
    assert decode_field("mp3", tag + with_header, "audio")[0].shape == SOUND.shape
    assert decode_field("mp3", tag + without, "audio")[0].shape[1] > len(TIMES)
    with pytest.raises(DecodingError, match="expected 1,500 samples per channel, got"):
        decode_field("mp3", tag + with_header[:-1], "audio")


@pytest.mark.parametrize("size", [0x7FFFF000, 0xFFFFFFFF])
def test_a_sound_that_was_written_to_a_pipe_has_no_size(size):
    data = bytearray(encode_field("wav", (SOUND, 8000)))
    at = data.index(b"data")
    data[at + 4 : at + 8] = size.to_bytes(4, "little")
    assert comparable(decode_field("wav", bytes(data), "audio")[0]) == SOUND.tolist()


def test_what_follows_the_samples_of_a_sound_may_be_anything():
    data = encode_field("wav", (SOUND, 8000))
    assert comparable(decode_field("wav", data + b"TAG" + bytes(125), "audio")[0]) == SOUND.tolist()


def test_ogg_without_a_last_page():
    """Cut between two pages, and the pages that there are complete."""
    data = encode_field("ogg", (np.tile(SOUND, 40), 8000))
    pages = [at for at in range(len(data)) if data[at : at + 4] == b"OggS"]
    assert len(pages) > 3
    for page in pages[1:]:
        with pytest.raises(DecodingError):
            decode_field("ogg", data[:page], "audio")


# SD2 keeps half of a sound in a file `._` of the current directory, where libsndfile then looks for that of MP3s, too.
@pytest.mark.parametrize("format", sorted(soundfile.available_formats().keys() - {"SD2"}))
def test_a_whole_sound_is_complete_in_every_format_and_byte_order(format):
    for subtype in soundfile.available_subtypes(format):
        for order in ("FILE", "LITTLE", "BIG"):
            if soundfile.check_format(format, subtype, order):
                stream = io.BytesIO()
                with suppress(soundfile.LibsndfileError):  # a rate that this one does not know
                    soundfile.write(stream, SOUND.T, 48000, format=format, subtype=subtype, endian=order)
                    check_length(stream.getvalue())


def test_a_sound_in_the_other_byte_order_that_was_cut():
    stream = io.BytesIO()
    soundfile.write(stream, SOUND.T, 48000, format="WAV", subtype="PCM_16", endian="BIG")
    with pytest.raises(FormatError, match="truncated"):
        check_length(stream.getvalue()[:-1])


def test_a_sound_is_checked_where_torchaudio_decodes_it():
    from webdataset.codecs._audio import _read_torchaudio

    with pytest.raises(FormatError, match="truncated"):
        _read_torchaudio(encode_field("wav", (SOUND, 8000))[:-1])
