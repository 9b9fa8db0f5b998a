"""Reading shards."""

import io
import tarfile

import webdataset as wds

from .cases import case, result_of


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
