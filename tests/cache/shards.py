"""Shards to be cached, and what lies in a cache."""

import io
import os
import random
import tarfile

MB = 1 << 20


def shard(seed, size=300_000):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo(f"{seed}.bin")
        info.size = size
        tar.addfile(info, io.BytesIO(random.Random(seed).randbytes(size)))
    return out.getvalue()


def files(folder):
    return sorted(name for name in os.listdir(folder) if name != ".webdataset")


def notes(folder, ending):
    return [name for name in os.listdir(folder / ".webdataset") if name.endswith(ending)]


def read(stream):
    with stream:
        return stream.read()
