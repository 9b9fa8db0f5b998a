import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from tests.index.archives import make
from tests.stores.fakes import answer, send_object
from hypothesis import given, strategies as st

import wids
from webdataset import stores
from webdataset.errors import StoreError
from webdataset.index import IndexedShards, Range, ShardReader, build_index, coalesce, open_bytes
from webdataset.testing import LoopbackServer, make_shard
from webdataset.testing._web_server import wanted_range

RANGES = st.lists(st.builds(Range, st.integers(0, 20_000), st.integers(0, 3000)), max_size=12)


@given(RANGES, st.integers(0, 5000))
def test_spans_cover_everything_and_nothing_beyond_the_gaps(ranges, gap):
    spans = coalesce(ranges, gap)
    assert all(any(s.start <= r.start and r.stop <= s.stop for s in spans) for r in ranges)
    assert all(b.start > a.stop + gap for a, b in zip(spans, spans[1:]))
    covered = {byte for r in ranges for byte in range(r.start, r.stop)}
    read = sum(span.length for span in spans)
    assert read <= len(covered) + gap * max(0, len(ranges) - 1)


@given(RANGES)
def test_many_ranges_give_their_bytes(ranges):
    data = bytes(byte % 251 for byte in range(23_000))
    with stores.open_write("memory://fetch/x.bin") as stream:
        stream.write(data)
    opened = open_bytes("memory://fetch/x.bin")
    assert opened.read_many(ranges) == [data[r.start : r.stop] for r in ranges]


def test_bytes_behind_the_end_are_an_error(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    opened = open_bytes(str(tmp_path / "x"))
    assert opened.read(1, 2) == b"bc" and opened.size == 3
    with pytest.raises(StoreError):
        opened.read(1, 3)
    opened.close()


def test_projection_over_http_moves_only_what_was_asked_for(tmp_path):
    members = [(f"{n:04d}.{ext}", bytes(size)) for n in range(40) for ext, size in (("jpg", 60_000), ("json", 3000))]
    data = make(members)
    (tmp_path / "a.tar").write_bytes(data)
    index = build_index(str(tmp_path / "a.tar"))
    moved = []

    def respond(handler):
        start, stop = 0, len(data)
        asked = handler.headers.get("Range")
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, stop = int(first), int(last) + 1 if last else len(data)
        body = data[start:stop] if handler.command == "GET" else b""
        handler.send_response(206 if asked else 200)
        handler.send_header("Accept-Ranges", "bytes")
        if asked:
            handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        handler.send_header("Content-Length", str(stop - start))
        handler.end_headers()
        handler.wfile.write(body)
        moved.append(len(body))

    with LoopbackServer(respond) as server:
        reader = ShardReader(server.url("a.tar"), index)
        samples = reader.samples(range(40), ["json"])
    assert [s["json"] for s in samples] == [bytes(3000)] * 40
    assert sum(moved) <= 0.07 * len(data)


VALIDATORS = [("ETag", '"%d"'), ("ETag", 'W/"%d"'), ("Last-Modified", "Sun, 06 Nov 1994 08:49:3%d GMT")]
NO_PROOF = [("X-Nothing", "%d"), ("ETag", 'W/"same"%.0s'), ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT%.0s")]


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize(
    ("validator", "value", "size"),
    [(*each, 10_000) for each in VALIDATORS] + [(*each, size) for each in NO_PROOF for size in (9_999, 10_001)],
)
def test_a_shard_that_changes_between_requests_is_an_error(validator, value, size, ranges):
    """Each kind of validator; the size, too, where there is nothing else."""
    state = {"version": 0}

    def respond(handler):
        data = bytes([state["version"]]) * (size if state["version"] else 10_000)
        span = wanted_range(handler, len(data)) if ranges else None
        start, stop = span or (0, len(data))
        handler.send_response(206 if span else 200)
        handler.send_header(validator, value % state["version"])
        handler.send_header("Content-Length", str(stop - start))
        if span:
            handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(data[start:stop])

    with LoopbackServer(respond) as server:
        opened = open_bytes(server.url("a.tar"))
        assert opened.read(0, 10) == bytes(10)
        state["version"] = 1
        with pytest.raises(StoreError, match="changed while it was read"):
            opened.read(100, 10)
    stores.close_connections()


@pytest.mark.parametrize("how", ["truncate", "replace"])
def test_a_local_shard_that_changes_is_an_error_and_no_crash(tmp_path, how):
    path = tmp_path / "x"
    path.write_bytes(bytes(100_000))
    opened = open_bytes(str(path))
    if how == "truncate":
        os.truncate(path, 1000)
    else:
        opened.close()  # as it is when many others were opened since
        (tmp_path / "y").write_bytes(bytes(100_000))
        os.replace(tmp_path / "y", path)
    for read in (lambda: opened.read(50_000, 10), lambda: opened.read_rows(np.array([0, 51_200]), 512)):
        with pytest.raises(StoreError, match="shorter|replaced"):
            read()


def indexed(urls):
    return (shards := IndexedShards(urls)), lambda number: shards[number]["txt"]


def in_another_process(urls):
    shards = IndexedShards(urls)
    _ = shards[0]  # its version goes to the other process
    shards = pickle.loads(pickle.dumps(shards))
    return shards, lambda number: shards[number]["txt"]


def of_wids(urls):
    shards = wids.ShardListDataset([{"url": url, "nsamples": 3} for url in urls], lru_size=1, transformations=[])
    return shards, lambda number: shards[number][".txt"].read()


@pytest.mark.parametrize("place", ["local", "http"])
@pytest.mark.parametrize("open_shards", [indexed, in_another_process, of_wids])
def test_a_shard_that_is_replaced_while_others_are_open_is_an_error(tmp_path, monkeypatch, place, open_shards):
    """Of many shards some are open at a time: one that is opened again must be what it was, with the same layout too."""
    monkeypatch.setattr("webdataset.index._indexed_shards._OPEN_SHARDS", 1)

    def store(text):
        for name in ("new.tar", "b.tar"):
            make_shard(tmp_path / name, [{"__key__": str(n), "txt": text} for n in range(3)])
        os.replace(tmp_path / "new.tar", tmp_path / "a.tar")

    def respond(handler):
        path = tmp_path / handler.path[1:]
        send_object(handler, path.read_bytes()) if path.exists() else answer(handler, 404)

    store("old")
    with LoopbackServer(respond) as server:
        urls = [server.url(name) if place == "http" else str(tmp_path / name) for name in ("a.tar", "b.tar")]
        shards, text = open_shards(urls)
        assert (text(0), text(3), text(1)) == (b"old",) * 3
        assert text(3) == b"old"  # the other one is open
        store("new")
        with pytest.raises(StoreError, match="changed while it was read|replaced while it was used"):
            text(2)
        shards.close()  # from here on it may be another one
        assert text(2) == b"new"
    stores.close_connections()


@pytest.mark.parametrize("rows", [(5, 0, 7, 3), (0, 1, 2, 3), (2, 4, 6), (3, 2, 1), (1, 1), (4,)], ids=str)
@pytest.mark.parametrize("spread", [1, 20])
def test_rows_are_the_bytes_at_their_offsets(tmp_path, rows, spread):
    data = np.random.default_rng(0).integers(0, 256, 400_000, np.uint8)
    (tmp_path / "x").write_bytes(data.tobytes())
    opened = open_bytes(str(tmp_path / "x"))
    starts = np.array(rows) * 1024 * spread
    for length in (1, 512, 700, 1024, 8192, 10_000):
        found = opened.read_rows(starts, length)
        assert found.flags.writeable
        assert (found == np.stack([data[s : s + length] for s in starts])).all()
    opened.close()


def test_more_shards_than_descriptors(tmp_path):
    """80 shards under a limit of 64 open files, used in turn."""
    program = """
import os, resource, sys
from webdataset.index import open_bytes
from webdataset.errors import StoreError
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
opened = [open_bytes(f"{sys.argv[1]}/{n}") for n in range(80)]
for _ in range(2):
    for n, shard in enumerate(opened):
        assert shard.read(0, 2) == b"%02d" % n
others = []
try:
    while True:
        others.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
os.close(others.pop())
for n, shard in enumerate(opened):  # one descriptor is left, and ours can be given back
    assert shard.read(0, 2) == b"%02d" % n
for shard in opened:
    shard.close()
try:
    while True:
        others.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
try:
    opened[0].read(0, 2)
except StoreError as error:
    assert "ulimit" in str(error), error
else:
    raise SystemExit("no error")
"""
    for n in range(80):
        (tmp_path / str(n)).write_bytes(b"%02d" % n)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=environment, check=True)
