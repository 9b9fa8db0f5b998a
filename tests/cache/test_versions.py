"""Never two versions in one stream, and no copy that its origin has replaced."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.cache.shards import MB, files, notes, read, shard
from webdataset import stores
from webdataset.cache import FileCache, ShardCache
from webdataset.errors import SpecError, StoreError
from webdataset.testing import LoopbackServer
from webdataset.testing._web_server import wanted_range

VALIDATORS = {
    "strong": lambda version: {"ETag": f'"{version}"'},
    "weak": lambda version: {"ETag": 'W/"same"'},
    "date": lambda version: {"Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"},
    "none": lambda version: {},
}
SIZE = 2 * MB


class Origin:
    """Serves one shard, of a version that can be changed; `gate` bytes at most of each answer until it is opened."""

    def __init__(self, validator):
        self.validator, self.version, self.chunked = VALIDATORS[validator], 1, False
        self.gate, self.opened, self.requests = None, threading.Event(), []

    def data(self):
        return shard(self.version, SIZE)

    def __call__(self, handler):
        data = self.data()
        self.requests.append((handler.command, handler.headers.get("Range")))
        span = None if self.chunked else wanted_range(handler, len(data))
        start, stop = span or (0, len(data))
        handler.send_response(206 if span else 200)
        for name, value in self.validator(self.version).items():
            handler.send_header(name, value)
        if span:
            handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        send = handler.wfile.write
        if self.chunked:
            handler.send_header("Transfer-Encoding", "chunked")
            send = lambda piece: handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))  # noqa: E731
        else:
            handler.send_header("Content-Length", str(stop - start))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        gate = stop if self.gate is None else max(start, self.gate)
        send(data[start:gate])
        if gate < stop:
            self.opened.wait(60)
            send(data[gate:stop])
        if send is not handler.wfile.write:
            send(b"")


@pytest.fixture(params=VALIDATORS)
def origin(request):
    origin = Origin(request.param)
    with LoopbackServer(origin) as server:
        origin.url = server.url("a.tar")
        yield origin
        origin.opened.set()
        stores.close_connections()


FETCHER = """
import sys
from webdataset.cache import ShardCache
with ShardCache(sys.argv[1]).open(sys.argv[2]) as stream:
    stream.read(1000)
    print("fetching", flush=True)
    stream.read()
"""


@pytest.mark.parametrize("changed", [False, True])
def test_a_follower_whose_fetcher_is_killed_reads_one_version_or_raises(tmp_path, origin, changed):
    origin.gate, old = SIZE // 2, origin.data()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FETCHER, str(tmp_path / "c"), origin.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as fetcher:
        assert fetcher.stdout.readline() == b"fetching\n"
        with ShardCache(tmp_path / "c").open(origin.url) as stream:
            begin = stream.read(SIZE // 4)
            fetcher.send_signal(signal.SIGKILL)
            fetcher.wait()
            origin.gate, origin.version = None, 2 if changed else 1
            if changed:
                with pytest.raises(StoreError, match="changed while it was read"):
                    while stream.read(MB):
                        pass
            else:
                assert begin + stream.read() == old
    assert read(ShardCache(tmp_path / "c").open(origin.url)) == origin.data()


@pytest.mark.parametrize("changed", [False, True])
def test_a_shard_that_outgrows_the_limit_is_continued_from_the_same_version_or_raises(
    tmp_path, origin, changed, monkeypatch
):
    """Its size is not known before, so the cache finds out in the middle."""
    monkeypatch.setattr("webdataset.cache._fetch_shard.STEP", 100_000)
    origin.gate, origin.chunked, old = SIZE // 4, True, origin.data()
    with ShardCache(tmp_path / "c", limit=SIZE // 2).open(origin.url) as stream:
        begin = stream.read(SIZE // 8)
        origin.chunked, origin.version = False, 2 if changed else 1
        origin.opened.set()  # the first answer goes on with the old version
        if changed:
            with pytest.raises(StoreError, match="changed while it was read"):
                stream.read()
        else:
            assert begin + stream.read() == old
    assert files(tmp_path / "c") == notes(tmp_path / "c", ".part") == []


def test_a_part_is_continued_only_under_a_strong_version(tmp_path, origin):
    with ShardCache(tmp_path / "c").open(origin.url) as stream:
        origin.gate = None
        stream.read(SIZE // 2)
    begun = len(origin.requests)
    assert read(ShardCache(tmp_path / "c").open(origin.url)) == origin.data()
    ranges = [wanted for verb, wanted in origin.requests[begun:] if verb == "GET"]
    left_whole = files(tmp_path / "c") and not ranges
    strong = "ETag" in origin.validator(1) and not origin.validator(1)["ETag"].startswith("W/")
    assert left_whole or strong == any(wanted != "bytes=0-" for wanted in ranges)


@pytest.mark.parametrize("policy", ["never", "size+version", "always", None])
def test_a_copy_is_compared_with_its_origin_by_policy(tmp_path, origin, policy, monkeypatch):
    if policy is None:
        monkeypatch.setenv("WDS_CACHE_REVALIDATE", "never")
    for name in ("a", "b"):
        assert read(ShardCache(tmp_path / name).open(origin.url)) == shard(1, SIZE)
    asked = len(origin.requests)
    assert read(ShardCache(tmp_path / "a", revalidate=policy).open(origin.url)) == shard(1, SIZE)
    assert [verb for verb, _ in origin.requests[asked:]] == ([] if policy in {"never", None} else ["HEAD"])
    origin.version = 2
    seen = origin.validator(1) != origin.validator(2) and policy not in {"never", None}
    assert read(ShardCache(tmp_path / "b", revalidate=policy).open(origin.url)) == shard(2 if seen else 1, SIZE)


def test_an_origin_that_is_gone(tmp_path, monkeypatch, server):
    monkeypatch.setenv("WDS_RETRIES", "1")
    url = server.add("a.tar", shard(1))
    read(ShardCache(tmp_path / "c").open(url))
    server._objects.clear()
    before = stores.counters.snapshot()
    assert read(ShardCache(tmp_path / "c").open(url)) == shard(1)
    assert "http.retries" not in stores.counters.since(before)
    with pytest.raises(StoreError):
        ShardCache(tmp_path / "c", revalidate="always").open(url)
    assert read(ShardCache(tmp_path / "c", revalidate="never").open(url)) == shard(1)
    with pytest.raises(SpecError, match="size\\+version"):
        ShardCache(tmp_path / "c", revalidate="sometimes")


@pytest.mark.parametrize("status", [404, 403])
def test_a_shard_that_is_gone_does_not_excuse_the_others_from_comparison(tmp_path, status):
    versions = {"/gone.tar": 1, "/b.tar": 1}

    def respond(handler):
        if versions[handler.path] is None:
            handler.send_error(status)
        else:
            origin = Origin("strong")
            origin.version = versions[handler.path]
            origin(handler)

    with LoopbackServer(respond) as server:
        urls = [server.url("gone.tar"), server.url("b.tar")]
        for url in urls:
            read(ShardCache(tmp_path / "c").open(url))
        versions.update({"/gone.tar": None, "/b.tar": 2})
        cache = ShardCache(tmp_path / "c")
        assert [read(cache.open(url)) for url in urls] == [shard(1, SIZE), shard(2, SIZE)]
        stores.close_connections()


def test_a_copy_that_is_replaced_while_it_is_opened(tmp_path):
    """Its record is read before its file is opened: in between another process may publish another version."""
    origin = Origin("strong")
    origin.gate = SIZE // 2
    with LoopbackServer(origin) as server:
        url, old = server.url("a.tar"), origin.data()
        ours, other = ShardCache(tmp_path / "c"), ShardCache(tmp_path / "c")
        with ours.open(url) as stream:
            begin = stream.read(SIZE // 4)
            origin.opened.set()
            other.get(url)
            locate, origin.version = ours.locate, 2

            def slow_locate(*arguments):
                found = locate(*arguments)
                ours.locate = locate
                assert read(other.open(url)) == shard(2, SIZE)
                return found

            ours.locate = slow_locate
            stream._close_file()  # as a follower does whose part was published
            try:
                assert begin + stream.read() == old
            except StoreError as error:
                assert "changed" in str(error)
        assert ours.locate == locate
        stores.close_connections()


def test_a_file_cache_by_itself_gives_the_path_of_a_complete_file(tmp_path, origin):
    data = origin.data()
    for _ in range(2):
        (found,) = FileCache(tmp_path / "c")([origin.url])
        with found["stream"] as stream:
            assert os.path.getsize(found["local_path"]) == len(data)
            assert stream.read() == data


def test_a_cache_directory_that_is_removed_is_made_again(tmp_path, server):
    import shutil

    urls = [server.add(f"{n}.tar", shard(n, MB)) for n in range(3)]
    cache = ShardCache(tmp_path / "c")
    assert read(cache.open(urls[0])) == shard(0, MB)
    shutil.rmtree(tmp_path / "c")
    assert read(cache.open(urls[1])) == shard(1, MB)
    with cache.open(urls[2]) as stream:
        begin = stream.read(10)
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        try:
            assert begin + stream.read() == shard(2, MB)
        except StoreError as error:
            assert "cache directory" in str(error)
    assert read(cache.open(urls[2])) == shard(2, MB)
    assert notes(tmp_path / "c", ".part") == []
