"""Values: decoded, encoded, written, opened."""

import os
import tarfile

import numpy as np

import webdataset as wds
from webdataset import tenbin, writer

from .cases import case, result_of
from .reading import read


@case
def decoding():
    encoded = {
        "a.txt": "é".encode(), "a.text": b"t", "a.transcript": b"t", "a.cls": b" 3\n", "a.cls2": b"4", "a.index": b"5",
        "a.inx": b"6", "a.id": b"7", "a.json": b'{"a": 1}', "a.jsn": b"[]", "a.xyz": b"raw", "a.txt.gz": __import__("gzip").compress(b"t"),
        "a.mp": writer.mp_dumps([1, {"a": 2}]), "a.npy": writer.numpy_dumps(np.arange(3)), "a.ten": bytes(writer.tenbin_dumps([np.arange(3.0)])),
        "a.npz": writer.numpy_npz_dumps({"a": np.arange(2)}), "a.pyd": __import__("pickle").dumps([1, 2]),
        "a.pth": writer.torch_dumps({"t": __import__("torch").arange(3)}),
    }  # fmt: skip
    return {name: result_of(lambda d=data, n=name: wds.Decoder([])({n: d})[n]) for name, data in encoded.items()}


@case
def images():
    rng = np.random.default_rng(0)
    pictures = {
        "png": writer.imageencoder(rng.integers(0, 255, (5, 4, 3), dtype=np.uint8), "PNG"),
        "ppm": writer.imageencoder(rng.integers(0, 255, (3, 2, 3), dtype=np.uint8), "PPM"),
    }
    specs = "l8 rgb8 rgba8 l rgb rgba torchl8 torchrgb8 torchrgba8 torchl torchrgb torch torchrgba pill pil pilrgb pilrgba".split()
    return {f"{s} {k}": result_of(wds.imagehandler(s), f".{k}", data) for s in specs for k, data in pictures.items()}


@case
def extensions():
    matches = {}
    for pattern in ("png", "left.png", "png jpg"):
        handler = wds.handle_extension(pattern, lambda data: "mine")
        matches[pattern] = [handler(key, b"") for key in (".png", ".left.png", ".PNG", ".jpg", ".apng", ".x")]
    return matches


@case
def encoding():
    values = {
        "a.cls": 3, "a.txt": "é", "a.json": {"a": [1, 2]}, "a.html": "<p>", "a.bin": b"raw", "a.npy": np.arange(3),
        "a.count": 5, "a.id": 6, "a.mp": [1], "a.unknown": 3, "a.ten": np.arange(3.0),
    }  # fmt: skip
    return {
        name: result_of(writer.encode_based_on_extension1, value, name, writer.default_handlers)
        for name, value in values.items()
    }


@case
def writing():
    with wds.TarWriter("out.tar", mtime=0) as sink:
        size = sink.write({"__key__": "k/1", "txt": "é", "cls": 3, "a.bin": b"12", "_dropped": "x"})
        missing = result_of(sink.write, {"txt": "x"})
    with tarfile.open("out.tar") as archive:
        members = [[m.name, m.size, m.mode, m.uname, m.gname, m.uid] for m in archive]
    return [size, missing, members, read("out.tar")]


@case
def shard_writing():
    with wds.ShardWriter("s-%02d.tar", maxcount=2, start_shard=1, verbose=0) as sink:
        for number in range(5):
            sink.write({"__key__": str(number), "cls": number})
    return [sorted(name for name in os.listdir() if name.startswith("s-")), read("s-{01..03}.tar")]


@case
def tenbin_bytes():
    arrays = [np.arange(3, dtype=np.int16), np.ones((2, 3), np.float64), np.zeros((1, 1, 1), np.uint8)]
    return [tenbin.encode_buffer(arrays), tenbin.decode_buffer(tenbin.encode_buffer(arrays)), tenbin.roundup(65)]


@case
def opening():
    with open("plain.txt", "wb") as stream:
        stream.write(b"hello")
    results = [result_of(lambda: wds.gopen("plain.txt").read()), result_of(lambda: wds.gopen("pipe:echo hi").read())]
    results += [result_of(lambda: wds.gopen("nothing.txt")), result_of(lambda: wds.gopen("nosuch://x"))]
    os.environ["GOPEN_REWRITE"] = "gs://x/=./"
    results.append(result_of(lambda: wds.gopen("gs://x/plain.txt").read()))
    del os.environ["GOPEN_REWRITE"]
    return results
