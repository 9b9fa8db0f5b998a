"""OpenAhead: a stage whose progress is the shards it has taken and not yet handed on."""

import io
import json
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from webdataset import stores
from webdataset.cache import _shard_cache
from webdataset.cache import CachedOpener, MemoryOpener, OpenAhead, ShardCache
from webdataset.errors import ShardNotFound, SpecError
from webdataset.flow import Pass
from webdataset.handlers import ignore_and_continue, ignore_and_stop
from webdataset.samples import ReadSamples


@pytest.fixture
def urls():
    for shard in range(6):
        with stores.open_write(f"memory://stage/{shard}.tar") as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
            for n in range(5):
                info = tarfile.TarInfo(f"{shard}-{n}.txt")
                info.size = 1
                tar.addfile(info, io.BytesIO(b"x"))
    return [f"memory://stage/{shard}.tar" for shard in range(6)]


def keys(samples):
    return [sample["__key__"] for sample in samples]


def test_the_same_samples_in_the_same_order(urls):
    plain = keys(ReadSamples()({"url": url} for url in urls))
    assert keys(ReadSamples()(OpenAhead(depth=3)({"url": url} for url in urls))) == plain
    assert len(plain) == 30


@pytest.mark.parametrize("stop", [1, 4, 5, 6, 17, 30])
def test_resumes(urls, stop):
    ahead, reader, upstream = OpenAhead(depth=3), ReadSamples(), iter([{"url": url} for url in urls])
    waiting, inside = ahead.start(Pass()), reader.start(Pass())
    stream = reader.run(ahead.run(upstream, waiting), inside)
    taken = [next(stream)["__key__"] for _ in range(stop)]
    saved = json.loads(json.dumps([waiting.save(), inside.save()]))
    stream.close()
    waiting, inside = ahead.start(Pass()), reader.start(Pass())
    waiting.load(saved[0], None)
    inside.load(saved[1], None)
    resumed = keys(reader.run(ahead.run(upstream, waiting), inside))
    assert taken + resumed == keys(ReadSamples()({"url": url} for url in urls))


def test_handlers(urls):
    wanted = [{"url": url} for url in (urls[0], "memory://stage/none.tar", urls[1])]
    with pytest.raises(ShardNotFound):
        list(OpenAhead()(wanted))
    assert [shard["url"] for shard in OpenAhead(handler=ignore_and_continue)(wanted)] == [urls[0], urls[1]]
    assert [shard["url"] for shard in OpenAhead(handler=ignore_and_stop)(wanted)] == [urls[0]]


def test_local_files_are_left_to_the_reader(tmp_path, urls):
    with stores.open_read(urls[0]) as stream:
        (tmp_path / "a.tar").write_bytes(stream.read())
    (shard,) = OpenAhead()([str(tmp_path / "a.tar")])
    assert shard == {"url": str(tmp_path / "a.tar")}


def test_bad_settings():
    with pytest.raises(SpecError):
        OpenAhead(depth=0)


@pytest.fixture
def mixed(tmp_path, urls):
    """Every second shard is a local file."""
    found = list(urls)
    for number in range(0, len(urls), 2):
        with stores.open_read(urls[number]) as stream:
            (tmp_path / f"{number}.tar").write_bytes(stream.read())
        found[number] = str(tmp_path / f"{number}.tar")
    return found


@pytest.mark.parametrize("kind", ["plain", "cached", "in memory"])
def test_a_mixed_list_keeps_its_order_and_fetches_once_through_a_cache(tmp_path, urls, mixed, kind):
    opened = []

    def note(url, *, start=0):
        opened.append(url)
        return stores.open_read(url, start=start)

    cached = CachedOpener(ShardCache(tmp_path / "c", opener=note))
    opener = {"plain": note, "cached": cached, "in memory": MemoryOpener(note)}[kind]
    plain = keys(ReadSamples()({"url": url} for url in urls))
    for _ in range(2):
        assert keys(ReadSamples(opener=opener)(OpenAhead(3, opener=opener)({"url": url} for url in mixed))) == plain
    remote = [url for url in mixed if url.startswith("memory:")]
    assert sorted(url for url in opened if url in remote) == sorted(remote * (2 if kind == "plain" else 1))


def test_through_a_cache_errors_come_in_their_turn_and_nothing_is_left(tmp_path, urls):
    opener = CachedOpener(ShardCache(tmp_path / "c"))
    wanted = [{"url": url} for url in (urls[0], "memory://stage/none.tar", *urls[1:])]
    handled = OpenAhead(3, opener=opener, handler=ignore_and_continue)(wanted)
    assert [shard["url"] for shard in handled] == urls
    stream = OpenAhead(4, opener=opener)(wanted)
    assert next(stream)["url"] == urls[0]
    with pytest.raises(ShardNotFound):
        next(stream)
    stream = OpenAhead(4, opener=CachedOpener(ShardCache(tmp_path / "d")))({"url": url} for url in urls)
    next(stream)
    stream.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("webdataset")]


def test_threads_that_open_their_first_shards_at_once_share_what_they_fetch(tmp_path, urls, monkeypatch):
    """Mutation: assign the directory instead of `setdefault`; readers then forget the threads that fetch for them."""
    cache, both = ShardCache(tmp_path / "c"), threading.Barrier(2)
    make = _shard_cache.CacheDirectory.__init__

    def together(*arguments):
        make(*arguments)
        both.wait(10)

    monkeypatch.setattr(_shard_cache.CacheDirectory, "__init__", together)
    with ThreadPoolExecutor(2) as pool:
        followers = list(pool.map(cache.open_soon, urls[:2]))
    for follower in followers:
        follower.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("webdataset")]
