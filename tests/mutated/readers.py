"""Every way in which the library reads a file of a stranger: good files, and a function that reads one to its end.

A reader gets the bytes of a file that may be damaged and a folder of its own. What it finds it returns.
"""

import bz2
import functools
import gzip
import io
import itertools
import json
import lzma
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import numpy as np

INTEROP = Path(__file__).parents[1] / "interop" / "golden"
STATES = Path(__file__).parents[1] / "golden" / "states"
MOST = 1000  # items of a stream that a damaged file may make endless


@dataclass(frozen=True)
class Reader:
    """`files()` are good files; `read(data, folder, rng)` reads one."""

    files: Callable[[], list[bytes]]
    read: Callable[[bytes, Path, Any], Any]


READERS: dict[str, Reader] = {}


def add(name, read, *files):
    READERS[name] = Reader(functools.cache(lambda: [each() if callable(each) else each for each in files]), read)


# --- fields ----------------------------------------------------------------------------------------------------------


def field(name, handlers=(None,)):
    """A reader of a field of this name, with one of these handlers."""

    def read(data, folder, rng):
        from webdataset.codecs import decode_field

        handler = rng.choice(handlers)
        return decode_field(name, data, *([] if handler is None else [handler]))

    return read


def add_fields():
    """Every codec; apart from the rest, because each imports its own packages."""
    import soundfile

    from tests.codecs.test_truncated import FILES, PICTURE, SOUND, film, handlers, saved
    from webdataset.codecs import DecodeImage, VideoHandler, encode_field

    made = {kind: make() for kind, make in FILES.items()}
    made |= {f"{kind} film": ("mp4", film(kind, codec)) for kind, codec in FILMS.items()}
    made["mjpeg"] = "mjpeg", saved("JPEG", np.kron(PICTURE, np.ones((4, 4, 1), "u1"))) * 3
    for kind in ("AIFF", "AU", "CAF", "W64", "RF64", "IRCAM", "VOC", "NIST", "PAF", "SVX", "MAT5", "HTK", "AVR", "WVE"):
        stream = io.BytesIO()
        with suppress(soundfile.LibsndfileError):  # one that knows other rates only
            soundfile.write(stream, SOUND.T[:200, :1], 8000, format=kind)
            made[f"{kind} sound"] = "wav", stream.getvalue()
    for name, value in {"txt": "größer", "cls": 7, "jsonl": [{"a": 1}, [2]]}.items():
        made[name] = name, encode_field(name, value)
    for kind, (name, data) in made.items():
        choices = handlers(name)
        if choices == ["video"]:
            choices += [VideoHandler(every=2, limit=2, audio=False)]
        elif len(choices) > 1:
            choices += ["l8", "rgba", "l16", "torchrgb8", DecodeImage("rgb8", size=4, crop="random")]
        add(f"field {kind}", field(name, choices), data)
    pictures = [data for name, data in made.values() if len(handlers(name)) == 3]
    add("thumbnail", thumbnail, *pictures)
    add("first frame", first_frame, *(made[name][1] for name in ("mp4", "webm", "avi", "wmv", "flv film")))
    add("waveform", waveform, *(made[name][1] for name in ("flac", "wav", "ogg", "mp3")))
    add("outlines", outlines, made["npz"][1])


FILMS = {"mpeg": "libx264", "h264": "libx264", "flv": "flv", "mpegts": "libx264", "ivf": "libvpx-vp9"}

# --- shards and what describes them ----------------------------------------------------------------------------------


def tar(format=tarfile.PAX_FORMAT, long=True):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=format) as archive:
        for number in range(6):
            for name, data in (
                ("json", b'{"a": %d}' % number),
                ("txt", b"x" * (number * 200)),
                ("cls", b"%d" % number),
            ):
                key = f"{'d' * 60}/{'é' * 40}{number:03d}" if long and number == 3 else f"{number:03d}"
                info = tarfile.TarInfo(f"{key}.{name}")
                info.size = len(data)
                info.pax_headers = {"comment": "c"} if number == 4 else {}
                archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def tars():
    return [tar(), tar(tarfile.GNU_FORMAT), tar(tarfile.USTAR_FORMAT, long=False)]


def stored(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def read_stream(data, folder, rng):
    import webdataset as wds

    path = stored(folder, "a.tar", data)
    dataset = wds.WebDataset(path, index=False, shardshuffle=False, empty_check=False, copy=rng.random() < 0.8)
    return list(itertools.islice(dataset, MOST))


def read_indexed(data, folder, rng):
    import webdataset as wds
    from webdataset.index import build_index, save_index

    path = stored(folder, "a.tar", data)
    save_index(build_index(path), path)
    dataset = wds.IndexedDataset(path)
    try:
        return [dataset[number] for number in range(min(len(dataset), MOST))]
    finally:
        dataset.close()


def read_damaged_index(data, folder, rng):
    import webdataset as wds

    path = stored(folder, "a.tar", tars()[0])
    from webdataset.index import dali_name

    stored(folder, Path(dali_name(path)).name, data)
    dataset = wds.IndexedDataset(path)
    try:
        return [dataset[number] for number in range(min(len(dataset), MOST))]
    finally:
        dataset.close()


def read_stream_of_index(data, folder, rng):
    import webdataset as wds
    from webdataset.index import dali_name

    path = stored(folder, "a.tar", tars()[0])
    stored(folder, Path(dali_name(path)).name, data)
    return list(itertools.islice(wds.WebDataset(path, shardshuffle=True, seed=1), MOST))


def index_text():
    import tempfile

    from webdataset.index import build_index, write_dali

    with tempfile.TemporaryDirectory() as folder:
        return write_dali(build_index(stored(Path(folder), "a.tar", tars()[0])))


def check_file(data, folder, rng):
    from webdataset.tools import check

    return check(stored(folder, "a.tar", data))


def repair_file(data, folder, rng):
    from webdataset.tools import repair

    return repair([stored(folder, "a.tar", data)], f"{folder}/out/")


def read_described(data, folder, rng):
    import webdataset as wds

    stored(folder, "a.tar", tars()[0])
    return list(itertools.islice(wds.WebDataset(stored(folder, "a.json", data), seed=1), MOST))


def read_wids(data, folder, rng):
    import wids

    stored(folder, "a.tar", tars()[0])
    dataset = wids.ShardListDataset(stored(folder, "a.json", data))
    try:
        return [dataset[number] for number in range(min(len(dataset), 20))]
    finally:
        dataset.close()


def description():
    return json.dumps({
        "__kind__": "wids-shard-index-v1", "wids_version": 1, "name": "x", "base": "",
        "shardlist": [{"url": "a.tar", "nsamples": 6, "filesize": len(tars()[0]), "md5sum": "0" * 32}],
    }).encode()  # fmt: skip


def parts():
    shards = [{"url": "a.tar", "nsamples": 6}]
    return json.dumps({"wids_version": 1, "datasets": [{"name": "x", "weight": 1.5, "shardlist": shards}]}).encode()


def read_spec(data, folder, rng):
    from webdataset.shards import parse_spec

    return list(itertools.islice(parse_spec(stored(folder, "a.yaml", data)), MOST))


SPEC = b"prefix: ''\nbuckets: [x]\ndatasets:\n- {name: a, shards: ['a-{00..03}.tar', b.tar], choose: 2}\n- name: c\n  shards: [c.tar]\n"

# --- other formats ---------------------------------------------------------------------------------------------------


def records(path, format=None):
    from webdataset.interop import find_format

    kind = find_format(format, path)
    found = []
    for part in kind.parts(path):
        with kind.open(part) as file:
            _ = file.schema
            found += list(itertools.islice(file.records(), MOST))
            length = len(file)
            if length:
                found.append(file[length - 1])
    return found


def read_other(name, format=None):
    return lambda data, folder, rng: records(stored(folder, name, data), format)


def read_directory(source, damaged, kind, **options):
    def read(data, folder, rng):
        from webdataset import interop

        for path in (INTEROP / source).iterdir():
            stored(folder, path.name, data if path.name == damaged else path.read_bytes())
        return records(str(folder), interop.FORMATS[kind](**options))

    return read


ROWS = {
    "cls": [1, 2, 3],
    "txt": ["a", "bé", None],
    "jpg": [b"x" * 9, b"", b"y"],
    "x": [[1.5], [2.5, 3.0], []],
    "y": [[[1], [2]], [], [[3, 4]]],
    "s": [{"a": 1}, {"a": 2}, None],
}


def parquet(**options):
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(pa.table(ROWS), stream, **options)
    return stream.getvalue()


def arrow(opened):
    import pyarrow as pa

    stream = io.BytesIO()
    table = pa.table({**ROWS, "d": pa.array(["p", "q", "p"]).dictionary_encode()})
    with getattr(pa.ipc, opened)(stream, table.schema) as sink:
        sink.write_table(table)
    return stream.getvalue()


def hdf5():
    import h5py

    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file["a/x"] = np.arange(24.0).reshape(4, 2, 3)
        file.create_dataset(
            "z", data=np.arange(400, dtype="i4").reshape(4, 100), chunks=(2, 50), compression="gzip", shuffle=True
        )
        file["t"] = ["a", "b", "c", "d"]
        file["v"] = np.array([(1, 2.0)] * 4, [("p", "i4"), ("q", "f8")])
    return stream.getvalue()


def tfrecord(pack=bytes):
    from webdataset import interop, stores

    interop.write(
        [{"__key__": str(n), "cls": n, "txt": "a" * n, "x.npy": np.arange(3)} for n in range(4)],
        "memory://mutated/a.tfrecord",
    )
    return pack(stores.read_bytes("memory://mutated/a.tfrecord"))


def read_tfrecord(data, folder, rng):
    """Also with right checksums, which keep all damage from what reads the records."""
    return records(stored(folder, "a.tfrecord", with_frames(data) if rng.random() < 0.7 else data))


def with_frames(data):
    import struct

    from webdataset.interop._tfrecord_frames import crc32c_function, masked

    crc, at, out = crc32c_function(), 0, b""
    while at + 12 <= len(data):
        head = data[at : at + 8]
        size = struct.unpack("<Q", head)[0]
        payload = data[at + 12 : at + 12 + min(size, len(data))]
        out += head + struct.pack("<I", masked(crc(head))) + payload + struct.pack("<I", masked(crc(payload)))
        at += 16 + size
    return out + data[at:]


def archive(**members):
    import zipfile

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return stream.getvalue()


def idx(shape):
    import struct

    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def npy(array):
    from webdataset.codecs import encode_field

    return encode_field("npy", array)


def cifar():
    from webdataset.codecs import encode_field

    return encode_field("pkl", {"data": np.zeros((4, 3072), "u1"), "labels": [3, 1, 4, 1], "filenames": list("abcd")})


# --- checkpoints -----------------------------------------------------------------------------------------------------


def states(name):
    golden = json.loads((STATES / f"{name}.json").read_bytes())
    return [json.dumps(stop["state"]).encode() for stop in golden["stops"]]


def read_state(name):
    def read(data, folder, rng):
        import os

        from tests.golden.pipelines import PIPELINES
        from tests.golden.shards import write_shards

        try:
            state = json.loads(data)
        except (ValueError, RecursionError):
            return None
        write_shards(folder)
        before = os.getcwd()
        os.chdir(folder)
        dataset = PIPELINES[name]()
        try:
            dataset.load_state_dict(state)
            items = iter(dataset)
            found = list(itertools.islice(items, 30))
            if hasattr(items, "close"):
                items.close()
            return found
        finally:
            dataset.close()
            os.chdir(before)

    return read


# --- the page ---------------------------------------------------------------------------------------------------------


def thumbnail(data, folder, rng):
    from webdataset.viewer._thumbnail import shrink_image

    return shrink_image(data, 64)


def first_frame(data, folder, rng):
    from webdataset.viewer._thumbnail import first_frame

    return first_frame(io.BytesIO(data), 64)


def waveform(data, folder, rng):
    from webdataset.viewer._field_content import waveform

    return waveform(io.BytesIO(data))


def outlines(data, folder, rng):
    from webdataset.codecs import decode_field
    from webdataset.viewer._field_content import outline
    from webdataset.viewer._thumbnail import array_picture

    found = decode_field("npz", data)
    return [(outline(name, array), array_picture(array, 32)) for name, array in found.items()]


def add_others():
    """Everything else."""
    add("tar", read_stream, *[lambda n=n: tars()[n] for n in range(3)])
    add("tar.gz", lambda data, folder, rng: read_stream(gzip.compress(data), folder, rng), lambda: tars()[0])
    for name, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", _zstd)):
        add(
            f"packed tar.{name}",
            read_stream,
            lambda pack=pack: pack(tars()[0]),
            lambda pack=pack: pack(tars()[1][:999]) + pack(tars()[1][999:]),
        )
    add("tar, indexed", read_indexed, *[lambda n=n: tars()[n] for n in range(3)])
    add("tar, checked", check_file, *[lambda n=n: tars()[n] for n in range(3)], lambda: gzip.compress(tars()[0]))
    add("tar, repaired", repair_file, *[lambda n=n: tars()[n] for n in range(3)], lambda: gzip.compress(tars()[0]))
    add("index", read_damaged_index, index_text)
    add("index of a stream", read_stream_of_index, index_text)
    add("description", read_described, description, parts)
    add("wids", read_wids, description, parts)
    add("spec", read_spec, SPEC)
    add(
        "json.gz, inside",
        lambda data, folder, rng: field("json.gz")(gzip.compress(data), folder, rng),
        b'{"a": [1, 2.5, "x", null]}',
    )
    add(
        "npz, inside",
        lambda data, folder, rng: field("npz")(archive(**{"x.npy": data}), folder, rng),
        lambda: npy(np.arange(6).reshape(2, 3)),
        lambda: npy(np.zeros(2, [("a", "i4"), ("b", "M8[s]")])),
    )
    add(
        "parquet",
        read_other("a.parquet"),
        parquet,
        lambda: parquet(compression="zstd", use_dictionary=False),
        lambda: parquet(compression="snappy", data_page_version="2.0"),
    )
    add("arrow", read_other("a.arrow"), lambda: arrow("new_file"), lambda: arrow("new_stream"))
    add("hdf5", read_other("a.h5"), hdf5)
    add("tfrecord", read_tfrecord, tfrecord, lambda: tfrecord(gzip.compress))
    add(
        "tfrecord, packed",
        lambda data, folder, rng: records(stored(folder, "a.tfrecord", gzip.compress(with_frames(data)))),
        tfrecord,
    )
    add(
        "tfindex",
        lambda data, folder, rng: (
            stored(folder, "a.tfindex", data),
            records(stored(folder, "a.tfrecord", tfrecord())),
        )[1],
        lambda: _tfindex(),
    )
    add("beton", read_other("a.beton"), lambda: gzip.decompress((INTEROP / "ffcv.beton.gz").read_bytes()))
    for source, kind, shard, options in (
        ("mds", "mds", "shard.00000.mds", {"check": False}),
        ("litdata", "litdata", "chunk-0-0.bin", {}),
        ("litdata-zstd", "litdata", "chunk-0-0.bin", {}),
        ("litdata-lists", "litdata", "chunk-0-0.bin", {}),
        ("litdata-dicts", "litdata", "chunk-0-0.bin", {}),
    ):
        for damaged in ("index.json", shard):
            add(
                f"{source}/{damaged}",
                read_directory(source, damaged, kind, **options),
                (INTEROP / source / damaged).read_bytes,
            )
    add("zip of samples", read_other("a.zip"), lambda: archive(**{"0.txt": b"a" * 99, "0.cls": b"1", "1.txt": b"b"}))
    add(
        "npz of rows",
        read_other("a.npz"),
        lambda: archive(**{"x.npy": npy(np.arange(6).reshape(2, 3)), "y.npy": npy(np.zeros(2))}),
    )
    add("npy of rows", read_other("a.npy", "npz"), lambda: npy(np.arange(6).reshape(2, 3)))
    add(
        "mnist",
        lambda data, folder, rng: (
            stored(folder, "train-labels-idx1-ubyte", idx((5,))),
            records(stored(folder, "train-images-idx3-ubyte", data)),
        )[1],
        lambda: idx((5, 4, 4)),
    )
    add(
        "cifar",
        lambda data, folder, rng: (stored(folder, "data_batch_1", data), records(str(folder), "cifar"))[1],
        cifar,
    )
    for name in (
        "stream_in_order",
        "stream_shards_and_buffer_shuffled",
        "stream_bucketed",
        "plan_buffered",
        "plan_global_shuffle",
        "plan_packed",
        "mix_by_shares",
        "mix_of_mixes",
        "loader_threads_2_planned",
        "loader_processes_0_batches_inside",
        "nested_in_stages",
        "stages_classic",
        "stream_resampled_endless",
    ):
        add(f"state {name}", read_state(name), *[lambda name=name, n=n: states(name)[n] for n in (1, 2)])


def _zstd(data):
    from webdataset.decompress import load_zstd

    return load_zstd("for tests").compress(data)


def _tfindex():
    from webdataset import interop, stores

    tfrecord()
    return stores.read_bytes(interop.write_tfrecord_index("memory://mutated/a.tfrecord"))


add_others()
