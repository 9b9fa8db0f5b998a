"""Datasets for the viewer: pictures, sound, film, arrays, text; hostile and broken ones."""

import io
import json
import struct
import wave
import zlib

import numpy as np
from PIL import Image, ImageDraw

from webdataset.testing import make_shard


def picture(number, size=(320, 240), kind="JPEG"):
    """A picture that differs visibly from number to number."""
    rng = np.random.default_rng(number)
    image = Image.fromarray(rng.integers(40, 220, (4, 5, 3), np.uint8)).resize(size, Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    for _ in range(3):
        x, y, r = (int(value) for value in rng.integers(20, 200, 3))
        draw.ellipse((x, y, x + r, y + r // 2), fill=tuple(int(value) for value in rng.integers(0, 255, 3)))
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def sound(number, seconds=2):
    """A tone as WAV."""
    time = np.arange(8000 * seconds) / 8000
    values = np.sin(2 * np.pi * (220 + 20 * number) * time) * np.abs(np.sin(time * 3))
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((values * 30000).astype("<i2").tobytes())
    return stream.getvalue()


def film(frames=40):
    """A short film as WebM, which every browser plays."""
    import av

    stream = io.BytesIO()
    with av.open(stream, "w", format="webm") as container:
        track = container.add_stream("libvpx", rate=10)
        track.width, track.height, track.pix_fmt = 160, 120, "yuv420p"
        for number in range(frames):
            pixels = np.full((120, 160, 3), (6 * number, 90, 255 - 6 * number), np.uint8)
            for packet in track.encode(av.VideoFrame.from_ndarray(pixels)):
                container.mux(packet)
        for packet in track.encode():
            container.mux(packet)
    return stream.getvalue()


def bomb():
    """A PNG of a few hundred bytes that claims 60,000 x 60,000 pixels."""

    def chunk(name, data):
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 999)) + chunk(b"IEND", b"")
    )


def photo(number):
    return {
        "__key__": f"photo/{number:05d}",
        "jpg": picture(number),
        "cls": number % 4,
        "txt": f"photo number {number}, a {'dog' if number % 3 else 'cat'} on a field",
        "json": {
            "width": 320,
            "label": "dog" if number % 3 else "cat",
            "boxes": [{"box": [40, 30, 90, 60], "label": "a"}],
        },
    }


def photos(folder, shards=2, each=40):
    """Shards of pictures with labels, captions and JSON."""
    return [
        make_shard(folder / f"train-{shard:03d}.tar", (photo(shard * each + number) for number in range(each)))
        for shard in range(shards)
    ]


def mixture(folder):
    """One shard with a sample of every kind, and some that cannot be shown."""
    samples = [
        {"__key__": "sound", "wav": sound(1), "txt": "a tone"},
        {"__key__": "film", "webm": film(), "cls": 7},
        {"__key__": "array", "npy": np.add.outer(np.arange(60), np.arange(80)).astype(np.float32)},
        {"__key__": "curve", "npy": np.sin(np.arange(300) / 20)},
        {
            "__key__": "masked",
            "jpg": picture(5),
            "seg.png": picture(6, kind="PNG"),
            "json": {"boxes": [[10, 10, 50, 50]]},
        },
        {"__key__": "words", "txt": "only text " * 30},
        {"__key__": "bytes", "bin": bytes(range(256)) * 40},
        {"__key__": "bomb", "png": bomb()},
        {"__key__": "broken", "jpg": b"\xff\xd8\xff no picture"},
        {"__key__": "badjson", "json": b'{"a": '},
        {"__key__": "pickle", "pyd": b"cos\nsystem\n(S'touch /tmp/wds-view-was-here'\ntR."},
    ]
    return make_shard(folder / "mixture.tar", samples)


SCRIPT = "<script>window.__ran=1;fetch('http://evil.invalid/')</script><img src=x onerror='window.__ran=2'>"


def hostile(folder):
    """Script in every field, key and name."""
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' onload='window.__ran=3'>{SCRIPT}</svg>".encode()
    page = f"<html><body onload='window.__ran=4'>{SCRIPT}</body></html>".encode()
    samples = []
    for number in range(6):
        samples.append(
            {
                "__key__": f"\"'><img src=x onerror=__ran={number}>{number}",
                "svg": svg,
                "html": page,
                "txt": SCRIPT.encode(),
                "cls": b"<b onmouseover=window.__ran=5>1</b>",
                "json": json.dumps({SCRIPT: [SCRIPT, {"javascript:window.__ran=6": SCRIPT}], "label": SCRIPT}).encode(),
                "jpg": page,
                "png": svg,
                "<img src=x onerror=alert(1)>.txt": SCRIPT.encode(),
                "js": b"window.__ran=7",
            }
        )
    return make_shard(folder / "<img src=x onerror=window.__ran=8>.tar", samples)
