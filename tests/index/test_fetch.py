import pytest
from tests.index.archives import make
from hypothesis import given, strategies as st

from webdataset import stores
from webdataset.errors import StoreError
from webdataset.index import Range, ShardReader, build_index, coalesce, open_bytes
from webdataset.testing import LoopbackServer

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
