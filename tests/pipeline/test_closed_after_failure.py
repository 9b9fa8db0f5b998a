"""A failure closes what was open, at once: an exception that is kept by a frame of its own traceback would not.

Such a cycle lives until the garbage is collected, with all frames of the traceback, and with the shards, threads and
commands that these hold.
"""

import gc
import gzip
import io
import os
import tarfile
import threading

import numpy as np
import pytest

import webdataset as wds
from webdataset import tariterators

SAMPLES = 60


def archive(duplicate=False):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number in range(SAMPLES):
            for name, data in (("npy", npy(number)), ("cls", b"%d" % number)):
                for _ in range(2 if duplicate and number == SAMPLES // 2 else 1):
                    info = tarfile.TarInfo(f"{number:06d}.{name}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def npy(number):
    buffer = io.BytesIO()
    np.save(buffer, np.full(100, number))
    return buffer.getvalue()


def damaged():
    data = bytearray(archive())
    data[len(data) // 2 // 512 * 512 : len(data) // 2 // 512 * 512 + 2048] = b"\xff" * 2048
    return bytes(data)


def bad_pixels():
    return archive().replace(npy(SAMPLES // 2), b"x" * len(npy(0)))


SHARDS = {
    "whole": ("s.tar", archive),
    "duplicate": ("s.tar", lambda: archive(duplicate=True)),
    "damaged": ("s.tar", damaged),
    "truncated": ("s.tar", lambda: archive()[:-20_000]),
    "undecodable": ("s.tar", bad_pixels),
    "gzip": ("s.tar.gz", lambda: gzip.compress(archive(), 1)),
    "gzip truncated": ("s.tar.gz", lambda: gzip.compress(archive(), 1)[:-500]),
    "gzip damaged": (
        "s.tar.gz",
        lambda: (packed := gzip.compress(archive(), 1))[:-2000] + b"\xff" * 1000 + packed[-1000:],
    ),
}


def fail(sample):
    if int(sample["__key__"]) == SAMPLES // 2:
        raise ValueError("bad sample")
    return sample


def mapped(url, handler):
    return wds.WebDataset(url, shardshuffle=False, handler=handler).map(fail, handler=handler)


def step_by_step(url, handler):
    streams = tariterators.url_opener(iter([{"url": url}]), handler=handler)
    files = tariterators.tar_file_expander(streams, handler=handler)
    return tariterators.group_by_keys(files, handler=handler)


def by_column(url, handler):
    dataset = wds.WebDataset(url, shardshuffle=False, handler=handler)
    return dataset.decode(handler=handler).to_tuple("npy", "cls", handler=handler).batched(7)


def shuffled(url, handler):
    return wds.WebDataset(url, shardshuffle=False, handler=handler).shuffle(20).decode(handler=handler).batched(4)


def indexed(url, handler):
    return wds.WebDataset(url, shardshuffle=False, handler=handler, index=True).decode(handler=handler)


def nested(url, handler):
    inner = mapped(url, handler)
    return wds.DataPipeline(wds.DataPipeline(inner, wds.map(fail, handler=handler)), wds.batched(3))


def mixed(url, handler):
    return wds.mix([(mapped(url, handler), 1), (by_column(url, handler).unbatched(), 1)])


def loaded(workers):
    def load(url, handler):
        dataset = mapped(url, handler).decode(handler=handler).batched(5)
        return wds.WebLoader(dataset, batch_size=None, workers="threads", num_workers=workers).unbatched().batched(3)

    return load


def piped(url, handler):
    return mapped(f"pipe:cat {url}", handler)


def cached(url, handler):
    folder = os.path.join(os.path.dirname(url), "cache")
    return wds.WebDataset(f"pipe:cat {url}", shardshuffle=False, handler=handler, cache_dir=folder).map(
        fail, handler=handler
    )


def repeated(url, handler):
    return mapped(url, handler).with_epoch(SAMPLES + 50)


READERS = {
    "mapped": mapped,
    "step by step": step_by_step,
    "by column": by_column,
    "shuffled": shuffled,
    "indexed": indexed,
    "nested": nested,
    "mixed": mixed,
    "loader": loaded(0),
    "threads": loaded(2),
    "piped": piped,
    "cached": cached,
    "repeated": repeated,
}
HANDLERS = {"raise": wds.reraise_exception, "continue": wds.ignore_and_continue, "stop": wds.ignore_and_stop}


def opened(folder):
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if path.startswith((str(folder), "pipe:")):
            found.append((number, path))
    return set(found)


QUICK = {("duplicate", "raise"), ("duplicate", "stop"), ("damaged", "raise")}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("shard", "handler"),
    [
        pytest.param(shard, handler, marks=() if (shard, handler) in QUICK else pytest.mark.long)
        for shard in SHARDS
        for handler in HANDLERS
    ],
)
def test_nothing_waits_for_the_garbage_collection(tmp_path, reader, shard, handler):
    name, data = SHARDS[shard]
    path = tmp_path / name
    path.write_bytes(data())
    gc.collect()
    before, threads = opened(tmp_path), set(threading.enumerate())
    gc.disable()
    try:
        try:
            for _ in READERS[reader](str(path), HANDLERS[handler]):
                pass
        except (wds.WebDatasetError, ValueError, OSError, EOFError):
            pass
        assert not opened(tmp_path) - before
        assert set(threading.enumerate()) <= threads
    finally:
        gc.enable()
