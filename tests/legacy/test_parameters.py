"""Every parameter of the public constructors does something that can be seen.

One small test for each (constructor, parameter); `test_no_parameter_is_forgotten` compares with the public signatures.
"""

import io
import logging
import os
import pickle
import random
import tarfile
from itertools import islice
from pathlib import Path

import pytest

import webdataset as wds
from webdataset import shardlists
from webdataset.cache import FileCache, StreamingOpen
from webdataset.stores import open_write
from webdataset.world import World, pretend

CHECKS = {}
SIGNATURES = Path(__file__).parent / "public_names.txt"
CHECKED = """
WebDataset TarWriter ShardWriter SimpleShardList ResampledShards RandomMix RoundRobin shuffle detshuffle Decoder
LMDBCached MockDataset LRUCleanup FileCache StreamingOpen DirectoryShardList batched to_tuple rename info
""".split()


def of(*names):
    """Register a check for parameters, written as `Constructor.parameter`."""

    def register(function):
        CHECKS.update(dict.fromkeys(names, function))
        return function

    return register


def public_parameters():
    for paragraph in SIGNATURES.read_text().split("\n\n"):
        for line in paragraph.splitlines()[1:]:
            name, _, parameters = line.rstrip(")").partition("(")
            if name in CHECKED:
                yield from (
                    f"{name}.{p}" for p in parameters.split(", ") if p and p[0] != "*" and p not in {"data", "src"}
                )


def test_no_parameter_is_forgotten():
    assert set(public_parameters()) - set(CHECKS) == set()


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


# --- WebDataset -----------------------------------------------------------------------------------------------------


@of("WebDataset.urls")
def _(room):
    folder = f"{room.path}/"
    for urls in (
        room.urls,
        shardlists.expand_urls(room.urls),
        folder,
        folder + "a-*.tar",
        wds.SimpleShardList(room.urls),
    ):
        assert room.read(urls) == room.keys
    assert room.read(room.path / "a-1.tar") == room.keys[4:8]


@of("WebDataset.handler")
def _(room):
    (room.path / "a-1.tar").write_bytes(b"x" * 3000)
    with pytest.raises(tarfile.ReadError):
        room.read()
    assert len(room.read(handler=wds.ignore_and_continue)) == 8
    assert len(room.read(handler=wds.ignore_and_stop)) == 4


@of("WebDataset.mode", "WebDataset.resampled")
def _(room):
    for options in ({"mode": "resampled"}, {"resampled": True}):
        dataset = wds.WebDataset(room.urls, seed=1, **options)
        assert len(list(islice(dataset, 40))) == 40


@of("WebDataset.repeat")
def _(room):
    dataset = wds.WebDataset(room.urls, shardshuffle=False, repeat=True)
    assert [s["__key__"] for s in islice(dataset, 30)] == (room.keys * 3)[:30]


@of("WebDataset.shardshuffle", "WebDataset.detshuffle")
def _(room):
    for options in ({"shardshuffle": True}, {"shardshuffle": 100}, {"shardshuffle": 100, "detshuffle": True}):
        dataset = wds.WebDataset(room.urls, **options)
        orders = {tuple(s["__key__"] for s in dataset) for _ in range(10)}
        assert len(orders) > 1
    assert room.read(shardshuffle=0) == room.read(shardshuffle=None) == room.keys


@of("WebDataset.seed")
def _(room):
    def orders(seed):
        dataset = wds.WebDataset(room.urls, shardshuffle=True, seed=seed)
        return [[s["__key__"] for s in dataset] for _ in range(4)]

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)
    assert wds.WebDataset(room.urls, seed=5).seed == 5


@of("WebDataset.cache_dir", "WebDataset.url_to_name")
def _(room):
    cache = room.path / "cache"
    cache.mkdir()
    url = room.put("far.tar")
    assert len(room.read(url, cache_dir=cache)) == 4
    assert [name for name in os.listdir(cache) if name.endswith("-far.tar")]
    assert len(room.read(url, cache_dir=str(cache), url_to_name=lambda url: "mine")) == 4
    assert (cache / "mine").exists()


@of("WebDataset.cache_size")
def _(room):
    cache = room.path / "cache"
    cache.mkdir()
    room.read(room.put("far.tar"), cache_dir=cache, cache_size=0)
    assert list(cache.iterdir()) == []
    room.read(room.put("far.tar"), cache_dir=cache, cache_size=100)  # smaller than the shard
    assert not [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size > 100]


@of("WebDataset.verbose")
def _(room):
    cache = room.path / "cache"
    cache.mkdir()
    url = room.put("far.tar")
    assert "far.tar" in room.logged(lambda: room.read(url, cache_dir=cache, verbose=True))
    assert "far.tar" not in room.logged(lambda: room.read(url, cache_dir=cache))


@of("WebDataset.nodesplitter")
def _(room):
    with pretend(World(rank=1, ranks=3)):
        assert room.read() == ["10", "11", "12", "13"]
        assert room.read(nodesplitter=None) == room.keys
        with pytest.raises(ValueError, match="explicit nodesplitter"):
            room.read(nodesplitter=wds.single_node_only)


@of("WebDataset.workersplitter")
def _(room):
    with pretend(World(worker=2, workers=3)):
        assert room.read() == ["20", "21", "22", "23"]
        assert room.read(workersplitter=None) == room.keys


@of("WebDataset.select_files", "WebDataset.rename_files")
def _(room):
    dataset = wds.WebDataset(
        room.urls,
        shardshuffle=False,
        rename_files=lambda name: name.replace(".cls", ".label"),
        select_files=lambda name: name.endswith("label"),
    )
    assert {tuple(set(s) - {"__key__", "__url__", "__local_path__"}) for s in dataset} == {("label",)}


@of("WebDataset.empty_check")
def _(room):
    (room.path / "empty.tar").write_bytes(bytes(1024))
    with pytest.raises(ValueError, match="^No samples found in dataset"):
        room.read(room.path / "empty.tar")
    assert room.read(room.path / "empty.tar", empty_check=False) == []


# --- TarWriter ------------------------------------------------------------------------------------------------------


def written(room, sample=None, **options):
    path = room.path / "out.tar"
    with wds.TarWriter(str(path), **options) as sink:
        sink.write(sample or {"__key__": "k", "cls": 3})
    with tarfile.open(path) as tar:
        return tar.getmembers()


@of("TarWriter.fileobj")
def _(room):
    for target in (str(room.path / "x.tar"), room.path / "y.tar", io.BytesIO()):
        with wds.TarWriter(target) as sink:
            sink.write({"__key__": "k", "cls": 3})
    assert len(target.getvalue()) > 1024
    assert (room.path / "x.tar").read_bytes() == (room.path / "y.tar").read_bytes()


@of("TarWriter.user", "TarWriter.group", "TarWriter.mode", "TarWriter.mtime")
def _(room):
    (member,) = written(room)
    assert (member.uname, member.gname, member.mode) == ("bigdata", "bigdata", 0o444)
    (member,) = written(room, user="me", group="us", mode=0o600, mtime=77)
    assert (member.uname, member.gname, member.mode, member.mtime) == ("me", "us", 0o600, 77)


@of("TarWriter.compress")
def _(room):
    for compress, magic in ((True, b"\x1f\x8b"), ("bz2", b"BZh"), ("xz", b"\xfd7zXZ"), (False, b"k.cls")):
        written(room, compress=compress)
        assert (room.path / "out.tar").read_bytes().startswith(magic)


@of("TarWriter.encoder")
def _(room):
    with pytest.raises(ValueError, match="int"):
        written(room, encoder=False)
    written(room, encoder={"cls": lambda value: b"mine"})
    assert b"mine" in (room.path / "out.tar").read_bytes()
    written(room, encoder=lambda sample: {**sample, "cls": b"all"})
    assert b"all" in (room.path / "out.tar").read_bytes()


@of("TarWriter.keep_meta")
def _(room):
    sample = {"__key__": "k", "cls": 3, "_note": "kept"}
    assert [m.name for m in written(room, sample)] == ["k.cls"]
    assert [m.name for m in written(room, sample, keep_meta=True)] == ["k._note", "k.cls"]


@of("TarWriter.format")
def _(room):
    long = {"__key__": "k" * 200, "cls": 3}
    written(room, long, format=tarfile.GNU_FORMAT)
    assert b"././@LongLink" in (room.path / "out.tar").read_bytes()
    written(room, long, format=tarfile.PAX_FORMAT)
    assert b"path=" in (room.path / "out.tar").read_bytes()


# --- ShardWriter ----------------------------------------------------------------------------------------------------


def shards_written(room, count=5, **options):
    options = {"pattern": str(room.path / "s-%02d.tar"), "verbose": 0, **options}
    with wds.ShardWriter(**options) as sink:
        for number in range(count):
            sink.write({"__key__": f"{number}", "bin": bytes(100)})
    return sorted(path.name for path in room.path.glob("s-*"))


@of("ShardWriter.pattern", "ShardWriter.maxcount", "ShardWriter.start_shard")
def _(room):
    assert shards_written(room, maxcount=2, start_shard=7) == ["s-07.tar", "s-08.tar", "s-09.tar"]


@of("ShardWriter.maxsize")
def _(room):
    assert shards_written(room, maxsize=150) == ["s-00.tar", "s-01.tar", "s-02.tar"]


@of("ShardWriter.post")
def _(room):
    done = []
    shards_written(room, maxcount=3, post=done.append)
    assert [os.path.basename(name) for name in done] == ["s-00.tar", "s-01.tar"]


@of("ShardWriter.verbose")
def _(room):
    assert "s-00.tar" in room.logged(lambda: shards_written(room, verbose=1))
    assert "s-00.tar" not in room.logged(lambda: shards_written(room, verbose=0))


@of("ShardWriter.opener")
def _(room):
    opened = []

    def opener(name):
        opened.append(open(name + ".mine", "wb"))
        return opened[-1]

    assert shards_written(room, opener=opener) == ["s-00.tar.mine"]
    assert opened[0].closed


# --- shard sources --------------------------------------------------------------------------------------------------


@of("SimpleShardList.urls", "SimpleShardList.seed")
def _(room):
    numbers = [str(n) for n in range(10)]
    assert [shard["url"] for shard in wds.SimpleShardList(numbers)] == numbers
    seeded = wds.SimpleShardList(numbers, seed=17)
    assert [shard["url"] for shard in seeded][0] == "7"
    assert list(seeded) == list(seeded)
    assert sorted(shard["url"] for shard in wds.SimpleShardList(numbers, seed=True)) == numbers


def drawn(count=12, **options):
    source = wds.ResampledShards("{0..99}.tar", **{"deterministic": True, **options})
    return [shard["url"] for shard in islice(source, count)]


@of("ResampledShards.urls", "ResampledShards.nshards", "ResampledShards.seed", "ResampledShards.deterministic")
def _(room):
    assert len(drawn(nshards=5)) == 5
    assert drawn(seed=1) == drawn(seed=1)
    assert drawn(seed=1) != drawn(seed=2)
    assert drawn(deterministic=False) != drawn(deterministic=False)


@of("ResampledShards.worker_seed")
def _(room):
    assert drawn(worker_seed=lambda: 1) != drawn(worker_seed=lambda: 2)


@of("ResampledShards.max_urls")
def _(room):
    assert set(drawn(50, max_urls=2)) == {"0.tar", "1.tar"}


@of("ResampledShards.empty_check")
def _(room):
    with pytest.raises(ValueError, match="."):
        wds.ResampledShards([])
    assert list(wds.ResampledShards([], empty_check=False)) == []


@of("DirectoryShardList.path", "DirectoryShardList.pattern")
def _(room):
    assert len(list(shardlists.DirectoryShardList(room.path))) == 3
    assert len(list(shardlists.DirectoryShardList(f"{room.path}/", pattern="a-{0,1}.*"))) == 2


@of("DirectoryShardList.mode", "DirectoryShardList.poll", "DirectoryShardList.select", "DirectoryShardList.timeout")
def _(room):
    for number in range(3):
        os.utime(room.path / f"a-{number}.tar", (1000 - number, 1000 - number))
    source = shardlists.DirectoryShardList(room.path, mode="unlink", poll=None, select="oldest")
    assert [Path(shard["url"]).name[:3] for shard in source] == ["a-2", "a-1", "a-0"]
    assert list(room.path.iterdir()) == []
    assert list(shardlists.DirectoryShardList(room.path, mode="keep", poll=0.01, timeout=0.02)) == []


@of("DirectoryShardList.fate")
def _(room):
    fates = []
    list(
        shardlists.DirectoryShardList(
            room.path, mode="unlink", poll=None, fate=lambda p: (fates.append(p), os.unlink(p))
        )
    )
    assert len(fates) == 3


# --- mixing and stages ----------------------------------------------------------------------------------------------


@of("RandomMix.datasets", "RandomMix.probs", "RandomMix.longest")
def _(room):
    one, two = [1] * 300, [2] * 300
    mixed = list(islice(wds.RandomMix([one, two], probs=[0.9, 0.1]), 200))
    assert mixed.count(1) > 140
    assert len(list(wds.RandomMix([one, two], longest=True))) == 600
    assert len(list(wds.RandomMix([one, two]))) < 600


@of("RoundRobin.datasets", "RoundRobin.longest")
def _(room):
    assert list(wds.RoundRobin([[1, 2], [10]])) == [1, 10, 2]
    assert list(wds.RoundRobin([[1, 2, 3], [10]], longest=True)) == [1, 10, 2, 3]


@of("MockDataset.sample", "MockDataset.length")
def _(room):
    assert list(wds.MockDataset("x", 2)) == ["x", "x"]


@of("shuffle.bufsize", "shuffle.initial")
def _(room):
    taken = []
    stream = wds.shuffle(20, initial=5, seed=1)(taken.append(n) or n for n in range(100))
    next(stream)
    assert 5 <= len(taken) <= 6
    assert max(abs(n - place) for place, n in enumerate(islice(stream, 50), 1)) < 100
    assert list(wds.shuffle(1)(iter(range(9)))) == list(range(9))


@of("shuffle.rng", "shuffle.seed", "shuffle.handler")
def _(room):
    def order(**options):
        return list(wds.shuffle(10, **options)(iter(range(30))))

    assert order(seed=1) == order(seed=1)
    assert order(seed=1) != order(seed=2)
    assert order(rng=random.Random(3)) == order(rng=random.Random(3), handler=wds.ignore_and_stop)
    with pytest.raises(ValueError, match="both"):
        wds.shuffle(10, seed=1, rng=random.Random(1))


@of("detshuffle.bufsize", "detshuffle.initial", "detshuffle.seed", "detshuffle.epoch")
def _(room):
    def order(**options):
        return list(wds.detshuffle(**{"bufsize": 10, **options})(iter(range(30))))

    assert order(seed=1) == order(seed=1)
    assert len({tuple(order(**o)) for o in ({}, {"seed": 1}, {"epoch": 3}, {"bufsize": 5}, {"initial": 2})}) == 5
    assert order(bufsize=1) == list(range(30))


@of("batched.batchsize", "batched.collation_fn", "batched.partial")
def _(room):
    numbers = [(n,) for n in range(5)]
    assert [len(b[0]) for b in wds.batched(2)(iter(numbers))] == [2, 2, 1]
    assert [len(b[0]) for b in wds.batched(2, partial=False)(iter(numbers))] == [2, 2]
    assert list(wds.batched(5, collation_fn=len)(iter(numbers))) == [5]


@of("to_tuple.handler", "to_tuple.missing_is_error", "to_tuple.none_is_error")
def _(room):
    samples = [{"a": 1, "b": 2}, {"a": 1}, {"a": None, "b": 2}]
    assert list(wds.to_tuple("a", "b", handler=wds.ignore_and_continue)(iter(samples))) == [(1, 2)]
    assert list(wds.to_tuple("a", "b", missing_is_error=False)(iter(samples))) == [(1, 2), (1, None), (None, 2)]
    loose = wds.to_tuple("a", "b", missing_is_error=True, none_is_error=False, handler=wds.ignore_and_continue)
    assert list(loose(iter(samples))) == [(1, 2), (None, 2)]


@of("rename.handler", "rename.keep")
def _(room):
    samples = [{"a": 1, "z": 0}, {"b": 1}]
    assert list(wds.rename(x="a", handler=wds.ignore_and_continue)(iter(samples))) == [{"z": 0, "x": 1}]
    assert list(wds.rename(x="a;b", keep=False)(iter(samples))) == [{"x": 1}, {"x": 1}]


@of("info.fmt", "info.n", "info.every", "info.width", "info.stream", "info.name")
def _(room):
    def shown(**options):
        out = io.StringIO()
        list(wds.info(stream=out, **options)(iter([{"__key__": str(n), "a": "x" * 100} for n in range(10)])))
        return out.getvalue()

    assert shown(n=2).count("---") < shown(n=2, every=2).count("---")
    assert "mine" in shown(name="mine")
    assert shown(fmt="key {__key__}", n=1).strip() == "key 0"
    assert "x" * 60 not in shown(width=20)
    assert "x" * 60 in shown(width=200)


# --- decoding and caches --------------------------------------------------------------------------------------------


@of("Decoder.handlers", "Decoder.pre", "Decoder.post")
def _(room):
    mine = lambda key, data: "mine" if key == ".x" else None  # noqa: E731
    assert wds.Decoder([mine])({"x": b"1", "cls": b"1"}) == {"x": "mine", "cls": 1}
    assert wds.Decoder([], pre=[mine])({"x": b"1"}) == {"x": "mine"}
    assert wds.Decoder([], post=[mine])({"x": b"1", "cls": b"1"}) == {"x": "mine", "cls": b"1"}


@of("Decoder.only", "Decoder.partial")
def _(room):
    assert wds.Decoder([], only="a.cls")({"a.cls": b"1", "cls": b"1"}) == {"a.cls": 1, "cls": b"1"}
    assert wds.Decoder([], partial=True)({"cls": 5}) == {"cls": 5}
    with pytest.raises(wds.DecodingError):
        wds.Decoder([])({"cls": 5})


@of("LMDBCached.fname", "LMDBCached.map_size", "LMDBCached.pickler", "LMDBCached.chunksize")
def _(room):
    class Pickler:
        dumps = staticmethod(lambda value, protocol=None: b"!" + pickle.dumps(value, protocol))
        loads = staticmethod(lambda data: pickle.loads(data[1:]))

    stage = wds.LMDBCached(str(room.path / "db"), map_size=1e7, pickler=Pickler, chunksize=2)
    assert list(stage(iter("abcde"))) == list(stage(iter("never"))) == list("abcde")
    with pytest.raises(ValueError, match="map_size"):
        wds.LMDBCached(str(room.path / "db2"), map_size=0)


@of("LRUCleanup.cache_dir", "LRUCleanup.cache_size", "LRUCleanup.keyfn", "LRUCleanup.verbose", "LRUCleanup.interval")
def _(room):
    cleanup = wds.LRUCleanup(room.path, cache_size=25_000, keyfn=lambda path: path, verbose=True, interval=None)
    assert "a-0.tar" in room.logged(cleanup.cleanup)
    assert sorted(path.name for path in room.path.iterdir()) == ["a-1.tar", "a-2.tar"]
    rare = wds.LRUCleanup(room.path, cache_size=25_000, interval=1e6)
    rare.cleanup()
    rare.cache_size = 0
    rare.cleanup()
    assert len(list(room.path.iterdir())) == 2


@of("FileCache.cache_dir", "FileCache.url_to_name", "FileCache.verbose", "FileCache.cache_cleanup_interval")
def _(room):
    cache = FileCache(room.path / "cache", url_to_name=lambda url: "name", verbose=True, cache_cleanup_interval=0)
    url = room.put("far.tar")
    assert "far.tar" in room.logged(lambda: cache.get_file(url))
    assert cache.get_file(url) == str(room.path / "cache" / "name")


@of("FileCache.validator", "FileCache.handler")
def _(room):
    with open_write(f"memory://{room.path.name}/bad.tar") as stream:
        stream.write(b"<html>" * 200)
    url = f"memory://{room.path.name}/bad.tar"
    strict = FileCache(room.path / "cache")
    with pytest.raises(ValueError, match=r"bad\.tar"):
        strict.get_file(url)
    loose = FileCache(room.path / "loose", validator=None)
    assert Path(loose.get_file(url)).exists()
    forgiving = FileCache(room.path / "cache", handler=wds.ignore_and_continue)
    assert list(forgiving(["memory://nowhere/x.tar"])) == []


@of("FileCache.cache_size")
def _(room):
    url = room.put("far.tar")
    with pytest.raises(wds.StoreError, match="cache_size"):
        FileCache(room.path / "cache", cache_size=100).get_file(url)
    assert Path(FileCache(room.path / "cache", cache_size=1e9).get_file(url)).exists()


@of("StreamingOpen.verbose", "StreamingOpen.handler")
def _(room):
    for shard in StreamingOpen(verbose=True)(shardlists.expand_urls(room.urls)[:1]):
        with shard["stream"] as stream:
            assert stream.read(2) == b"00"
        assert shard["local_path"] == shard["url"]
    assert list(StreamingOpen(handler=wds.ignore_and_continue)(["missing.tar"])) == []


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_parameter_does_what_it_says(name, tmp_path, caplog):
    CHECKS[name](Room(tmp_path, caplog))
