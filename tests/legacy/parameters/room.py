"""Where the checks of parameters are registered, and what they get: three shards in a directory of their own."""

import io
import logging
import tarfile

import webdataset as wds
from webdataset.stores import open_write

CHECKS = {}


def of(*names):
    """Register a check for parameters, written as `Constructor.parameter`."""

    def register(function):
        CHECKS.update(dict.fromkeys(names, function))
        return function

    return register


class Room:
    """Three shards of four samples, in a directory of their own."""

    def __init__(self, path, caplog):
        self.path, self.caplog = path, caplog
        for shard in range(3):
            with tarfile.open(path / f"a-{shard}.tar", "w") as tar:
                for number in range(4):
                    for field, data in (("cls", b"%d" % number), ("TXT", b"text")):
                        info = tarfile.TarInfo(f"{shard}{number}.{field}")
                        info.size = len(data)
                        tar.addfile(info, io.BytesIO(data))
        self.urls = str(path / "a-{0..2}.tar")
        self.keys = [f"{shard}{number}" for shard in range(3) for number in range(4)]

    def read(self, urls=None, **options):
        return [s["__key__"] for s in wds.WebDataset(urls or self.urls, **{"shardshuffle": False, **options})]

    def logged(self, function):
        with self.caplog.at_level(logging.INFO):
            self.caplog.clear()
            function()
        return self.caplog.text

    def put(self, name):
        """One of the shards in the memory store, which counts as far away."""
        with open_write(f"memory://{self.path.name}/{name}") as stream:
            stream.write((self.path / "a-0.tar").read_bytes())
        return f"memory://{self.path.name}/{name}"
