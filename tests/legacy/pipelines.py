"""The same pipelines for two libraries: prints their results as JSON. Run by `test_differential.py`, once with each."""

import hashlib
import io
import json
import os
import random
import sys
import tarfile
import warnings

import numpy as np

warnings.simplefilter("ignore")
import webdataset as wds  # noqa: E402
from webdataset import autodecode, filters, mix, shardlists, tariterators, tenbin, utils, writer  # noqa: E402

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def plain(value):
    """Anything as JSON; arrays as shape, type and a hash of their bytes."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items() if k not in {"__url__", "__local_path__"}}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes " + bytes(value).decode("latin1")
    if hasattr(value, "detach"):
        return ["torch", plain(value.numpy())]
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), hashlib.md5(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, np.generic):
        return [type(value).__name__, value.item()]
    if hasattr(value, "getbands"):
        return [value.mode, plain(np.asarray(value))]
    return value if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


def kinds_of(error):
    """Every standard exception under which a caller would catch it, the closest first."""
    standard = (cls for cls in type(error).__mro__ if cls.__module__ in {"builtins", "tarfile"})
    return [cls.__name__ for cls in standard if cls.__name__ not in {"object", "BaseException"}]


def result_of(function, *args, **kw):
    try:
        return plain(function(*args, **kw))
    except Exception as error:
        return {"raises": kinds_of(error)}


# --- reading --------------------------------------------------------------------------------------------------------


def write_tar(path, members):
    with tarfile.open(path, "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def read(path, *stages, **kw):
    return list(wds.DataPipeline(wds.SimpleShardList(path), wds.tarfile_to_samples(**kw), *stages))


def sample_shards():
    for shard in range(3):
        members = []
        for number in range(4):
            key = f"dir/{shard}{number}"
            members += [(f"{key}.TXT", b"hello"), (f"{key}.cls", b"%d" % number), (f"{key}.seg.json", b'{"a": [1, 2]}')]
        write_tar(f"a-{shard}.tar", members)
    return "a-{0..2}.tar"


@case
def names():
    written = [
        "a.jpg",
        "a.seg.jpg",
        "dir.x/y.z/a.b.c",
        "./b.jpg",
        "/abs/c.jpg",
        "../d.jpg",
        "e.JPG",
        "f..b",
        "g.",
        "h",
        "dir/i",
    ]
    written += [
        "__meta__/j.jpg",
        "__m__.json",
        "dir/__x__.jpg",
        "k l.m n.txt",
        ".hidden",
        "ü/é.jpg",
        "n" * 200 + ".txt",
    ]
    write_tar("names.tar", [(name, b"x") for name in written])
    return read("names.tar")


@case
def samples():
    return read(sample_shards())


@case
def decoded():
    return read(sample_shards(), wds.decode())


@case
def selected():
    return read(
        sample_shards(),
        select_files=lambda name: name.endswith(("cls", "x.txt")),
        rename_files=lambda n: n.replace(".TXT", ".x.txt"),
    )


@case
def equal_keys_in_neighbouring_shards():
    for shard in range(2):
        write_tar(f"same-{shard}.tar", [("k.a" if shard else "k.b", b"x")])
    return read("same-{0..1}.tar")


@case
def duplicates():
    write_tar("twice.tar", [("k.a", b"1"), ("k.a", b"2"), ("l.a", b"3")])
    return [result_of(read, "twice.tar"), result_of(read, "twice.tar", handler=wds.ignore_and_continue)]


@case
def damaged():
    with open(sample_shards().replace("{0..2}", "0"), "rb") as stream:
        data = stream.read()
    results = []
    for name, content in {"empty": b"", "garbage": b"x" * 5000, "cut": data[:1500]}.items():
        with open(name + ".tar", "wb") as stream:
            stream.write(content)
        results.append(result_of(read, name + ".tar"))
    results.append(result_of(read, "missing.tar"))
    return results


@case
def web_dataset():
    dataset = wds.WebDataset(sample_shards(), shardshuffle=False, nodesplitter=None)
    fluid = dataset.decode().rename(label="cls").map_dict(label=lambda x: x + 1).to_tuple("label", "txt").batched(5)
    return [list(fluid), list(fluid.unbatched()), list(dataset.slice(2, 4))]


@case
def compressed():
    results = []
    for kind in ("gz", "bz2", "xz"):
        with tarfile.open(f"c.tar.{kind}", f"w:{kind}") as archive:
            info = tarfile.TarInfo("a.txt")
            info.size = 1
            archive.addfile(info, io.BytesIO(b"x"))
        results.append(read(f"c.tar.{kind}"))
    return results


@case
def through_a_pipe():
    return read(f"pipe:cat {sample_shards()}")


# --- stages ---------------------------------------------------------------------------------------------------------

SAMPLES = [{"__key__": f"{n}", "a": n, "b.x": f"{n}", "c": [n, n]} for n in range(5)]


def run(stage):
    return result_of(lambda: list(stage(iter([dict(sample) for sample in SAMPLES]))))


@case
def stages():
    add = lambda value: value + value  # noqa: E731
    return {
        "map": run(wds.map(lambda s: {"a": s["a"]})),
        "map None": run(wds.map(lambda s: None if s["a"] == 2 else s)),
        "select": run(wds.select(lambda s: s["a"] % 2)),
        "map_dict": run(wds.map_dict(a=add)),
        "map_dict missing": run(wds.map_dict(z=add)),
        "rename": run(wds.rename(new="z;a")),
        "rename missing": run(wds.rename(new="z")),
        "rename keep": run(wds.rename(keep=False, new="a", other="b.x")),
        "to_tuple": run(wds.to_tuple("a", "z;b.x", "__key__")),
        "to_tuple blanks": run(wds.to_tuple("a c")),
        "to_tuple list": run(wds.to_tuple(["z", "a"])),
        "to_tuple missing": run(wds.to_tuple("a", "z")),
        "to_tuple none": run(wds.to_tuple("a", "z", missing_is_error=False)),
        "extract_keys": run(wds.extract_keys("a", "*.x")),
        "extract_keys missing": run(wds.extract_keys("nothing")),
        "extract_keys ignored": run(wds.extract_keys("a", "nothing", ignore_missing=True)),
        "rename_keys": run(wds.rename_keys(("label", "a"), ("text", "*.x"))),
        "rename_keys kept": run(wds.rename_keys(("label", "a"), keep_unselected=True)),
        "associate": run(wds.associate({"1": {"extra": 1}})),
        "batched": run(wds.batched(2)),
        "batched full": run(wds.batched(2, partial=False)),
        "batched list": run(wds.batched(2, collation_fn=None)),
        "unlisted": result_of(lambda: list(filters.unlisted()(iter([[1, 2], [3]])))),
        "unbatched": result_of(lambda: list(wds.unbatched()(iter([(np.arange(3), ["a", "b", "c"])])))),
        "unbatched dict": result_of(lambda: list(wds.unbatched()(iter([{"x": [1, 2], "y": "ab"}])))),
        "map_tuple": result_of(lambda: list(wds.map_tuple(add, None)(iter([(1, 2, 3), [4, 5]])))),
        "slice": run(wds.slice(1, 4, 2)),
        "rsample all": run(wds.rsample(1.0)),
        "rsample none": run(wds.rsample(0.0)),
        "xdecode": result_of(
            lambda: list(
                wds.xdecode(("*.n", lambda s: int(s.read())))(iter([{"__key__": "k", "x.txt": b"t", "x.n": b"3"}]))
            )
        ),
    }


@case
def collation():
    columns = {
        "ints": [1, 2],
        "floats": [1.5, 2.5],
        "bools": [True, False],
        "strings": ["a", "b"],
        "bytes": [b"a", b"b"],
        "nones": [None, None],
        "arrays": [np.ones((2, 2)), np.zeros((2, 2))],
        "lists": [[1], [2]],
    }
    return {
        name: result_of(filters.default_collation_fn, [(value,) for value in values])
        for name, values in columns.items()
    }


@case
def handlers():
    def fails(sample):
        if sample["a"] % 2:
            raise ValueError("odd")
        return sample["a"]

    return {
        name: run(wds.map(fails, handler=getattr(wds, name)))
        for name in ("reraise_exception", "ignore_and_continue", "ignore_and_stop")
    }


@case
def helpers():
    return {
        "getfirst": result_of(wds.getfirst, {"a": 1}, "b;a"),
        "getfirst missing": result_of(wds.getfirst, {"a": 1}, "b"),
        "getfirst default": result_of(wds.getfirst, {"a": 1}, "b", 7, False),
        "parse_field_spec": filters.parse_field_spec("a;b c"),
        "transform_with": filters.transform_with((1, 2, 3), [str]),
        "tuple2dict": filters.tuple2dict((1, 2)),
        "base_plus_ext": [list(tariterators.base_plus_ext(n)) for n in ("a.b.c", "x/a.b", "a", "x.y/a")],
        "valid_sample": [tariterators.valid_sample(s) for s in ({}, {"a": 1}, {"a": 1, "__bad__": True}, None)],
        "weights": utils.compute_sample_weights([(10, 1.0), (20, 2.0)]),
        "guess_batchsize": utils.guess_batchsize(([1, 2, 3],)),
        "repeatedly": list(utils.repeatedly([1, 2], nepochs=2)),
        "repeatedly batches": list(utils.repeatedly([1, 2], nbatches=3)),
    }


# --- shards ---------------------------------------------------------------------------------------------------------


@case
def shard_lists():
    os.environ["WDS_PLACE"] = "bucket"
    return {
        "braces": shardlists.expand_urls("a-{000..011}.tar::b-{x,y}.tar"),
        "variable": shardlists.expand_urls("${PLACE}/a.tar"),
        "seeded": [shard["url"] for shard in wds.SimpleShardList([str(n) for n in range(10)], seed=17)],
        "length": len(wds.SimpleShardList("a-{0..4}.tar")),
        "resampled": {shard["url"] in {"0", "1"} for shard in wds.ResampledShards(["0", "1"], nshards=20)} == {True},
        "shardlist": list(tariterators.shardlist("a-{0..1}.tar")),
    }


@case
def splitting():
    shards = [str(n) for n in range(11)]
    results = {}
    for rank, ranks, worker, workers in [(0, 2, 1, 3), (1, 2, 2, 3), (4, 5, 0, 1)]:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), WORKER=str(worker), NUM_WORKERS=str(workers))
        mine = wds.split_by_worker(wds.split_by_node(iter(shards)))
        results[f"{rank} {worker}"] = [list(mine), list(utils.pytorch_worker_info()), utils.pytorch_worker_seed()]
        results[f"single {rank}"] = result_of(lambda: list(wds.single_node_only(iter(shards))))
    for name in ("RANK", "WORLD_SIZE", "WORKER", "NUM_WORKERS"):
        del os.environ[name]
    return results


@case
def mixing():
    return {
        "round robin": list(wds.RoundRobin([[1, 2, 3], [10, 20]])),
        "round robin longest": list(wds.RoundRobin([[1, 2, 3], [10]], longest=True)),
        "random longest": sorted(wds.RandomMix([[1, 2], [3]], [1, 1], longest=True)),
        "shortest": list(mix.round_robin_shortest(iter("abc"), iter("1"))),
        "mock": list(wds.MockDataset("x", 3)),
    }


@case
def pipelines():
    numbers = wds.DataPipeline(lambda: iter(range(5)))
    return {
        "repeat": list(wds.DataPipeline(lambda: iter(range(3))).repeat(2)),
        "length": len(wds.DataPipeline(lambda: iter(range(3))).with_length(7, silent=True)),
        "no length": result_of(len, numbers),
        "compose": list(numbers.compose(lambda items: (n * n for n in items))),
        "not a stage": result_of(lambda: list(wds.DataPipeline(numbers, 3))),
        "shuffle keeps all": sorted(wds.shuffle(3)(iter(range(20)))),
    }


# --- values ---------------------------------------------------------------------------------------------------------


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


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    random.seed(0)
    print(json.dumps({name: result_of(function) for name, function in CASES.items()}))
