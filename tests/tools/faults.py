"""Planted faults: for each one how to make it, how to check for it, and the kind that must be found.

A fault is planted in a shard of twelve good samples, except where the whole file is the fault.
"""

import bz2
import gzip
import io
import json
import lzma
import tarfile
from typing import NamedTuple

import numpy as np

from webdataset.codecs import encode_field
from webdataset.index import index_shards, write_description
from webdataset.tools import CheckOptions, Kind, Target

BLOCK = 512
END = bytes(2 * BLOCK)
JSON = b'{"a": 2}'
PICTURE = encode_field("jpg", np.arange(48, dtype="u1").reshape(4, 4, 3))


class Planted(NamedTuple):
    shard: bytes  # what the shard holds
    kind: Kind  # what must be found
    options: CheckOptions = CheckOptions()
    others: frozenset = frozenset()  # what else may be found


def member(name, payload=b"", kind=b"0", size=None, link="", format=tarfile.GNU_FORMAT, **more):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = len(payload) if size is None else size
    for key, value in more.items():
        setattr(info, key, value)
    return info.tobuf(format, "utf-8", "surrogateescape") + payload + bytes(-len(payload) % BLOCK)


def sample(key, **fields):
    fields = fields or {"cls": b"7", "jpg": PICTURE, "json": b'{"a": 1}'}
    return b"".join(member(f"{key}.{name}", data) for name, data in fields.items())


def good(first=0, count=6):
    return b"".join(sample(f"{number:04d}") for number in range(first, first + count))


def patched(block, start, content, *, checksum=False):
    block = block[:start] + content + block[start + len(content) :]
    if not checksum:
        return block
    total = sum(block[:148]) + 8 * 32 + sum(block[156:BLOCK])
    return block[:148] + b"%06o\0 " % total + block[156:]


HEAD, TAIL = good(), good(6)
LEN = len(HEAD)


def among(*middle):
    """The middle between good samples."""
    return HEAD + b"".join(middle) + TAIL + END


def hf(**more):
    return CheckOptions(targets=frozenset({Target.HUGGING_FACE}), **more)


def for_target(target):
    return CheckOptions(targets=frozenset({target}))


def pax(records):
    return member("././@PaxHeader", records, b"x")


def _array():
    stream = io.BytesIO()
    np.save(stream, np.arange(10))
    return stream.getvalue()


ZIPPED = gzip.compress(among())
BAD_JSON = sample("x", json=b"{", cls=b"7", jpg=PICTURE)
BAD_CLASS = sample("x", cls=b"seven", jpg=PICTURE, json=JSON)
EXTRA = sample("x", cls=b"1", jpg=PICTURE, json=b'{"a": 2}', txt=b"hello")
USUAL = frozenset({Kind.UNUSUAL_FIELDS})

# Name → planted fault.
IN_FILES = {
    # The file.
    "nothing": Planted(b"", Kind.EMPTY_FILE),
    "a web page": Planted(b"<!DOCTYPE html>" * 100, Kind.NOT_TAR),
    "a zip": Planted(b"PK\3\4" + bytes(range(256)) * 8, Kind.NOT_TAR),
    "an empty archive": Planted(END, Kind.NO_SAMPLES),
    "folders only": Planted(member("a/", kind=b"5") + END, Kind.NO_SAMPLES),
    # Cut.
    "cut in a header": Planted((HEAD + TAIL)[: LEN + 300], Kind.CUT_HEADER),
    "cut in a payload": Planted((HEAD + TAIL)[: LEN + 2 * BLOCK + BLOCK + 20], Kind.CUT_PAYLOAD, others=USUAL),
    "cut in padding": Planted((HEAD + TAIL)[: LEN + BLOCK + 100], Kind.CUT_PADDING, others=USUAL),
    "cut between samples": Planted(HEAD + TAIL, Kind.NO_END),
    "cut between members": Planted(HEAD + member("x.jpg", PICTURE), Kind.NO_END, others=USUAL),
    "half an end mark": Planted(HEAD + bytes(BLOCK), Kind.HALF_END),
    "cut in an extended header": Planted(HEAD + member("n" * 300, kind=b"0")[: BLOCK + 100], Kind.CUT_HEADER),
    "cut gzip": Planted(gzip.compress(among())[:-20], Kind.CUT_COMPRESSION),
    "cut bzip2": Planted(bz2.compress(among())[:-20], Kind.CUT_COMPRESSION),
    "cut xz": Planted(lzma.compress(among())[:-20], Kind.CUT_COMPRESSION),
    "gzip with a wrong checksum": Planted(patched(ZIPPED, len(ZIPPED) - 8, b"abcd"), Kind.BAD_COMPRESSION),
    "gzip and garbage": Planted(gzip.compress(among()) + b"garbage" * 10, Kind.BAD_COMPRESSION),
    "a bit of gzip flipped": Planted(
        patched(ZIPPED, len(ZIPPED) // 2, bytes([ZIPPED[len(ZIPPED) // 2] ^ 255])), Kind.BAD_COMPRESSION
    ),
    # Damaged.
    "a wrong checksum": Planted(among(patched(sample("x"), 148, b"000000")), Kind.BAD_CHECKSUM, others=USUAL),
    "a flipped bit in a name": Planted(among(patched(sample("x"), 0, b"y")), Kind.BAD_CHECKSUM, others=USUAL),
    "a header of noise": Planted(
        among(patched(sample("x"), 0, bytes(range(256)) * 2)), Kind.BAD_CHECKSUM, others=USUAL
    ),
    "a size in words": Planted(
        among(patched(sample("x")[:BLOCK], 124, b"a few bytes\0", checksum=True) + sample("x")[BLOCK:]),
        Kind.BAD_HEADER,
        others=USUAL,
    ),
    "a wiped header": Planted(
        among(bytes(BLOCK) + sample("x")[BLOCK:]), Kind.WIPED_HEADER, others=USUAL | {Kind.BAD_CHECKSUM}
    ),
    "bytes missing from a payload": Planted(
        among(sample("x")[:600] + sample("x")[900:]), Kind.MISALIGNED, others=USUAL
    ),
    "bytes added to a payload": Planted(
        among(sample("x")[:600] + b"?" * 77 + sample("x")[600:]), Kind.MISALIGNED, others=USUAL
    ),
    "blocks missing from a payload": Planted(
        among(member("x.bin", bytes(3000))[:1024], member("y.bin", b"1")), Kind.MISALIGNED
    ),
    "garbage after the end": Planted(among() + b"garbage" * 200, Kind.GARBAGE),
    "a few bytes after the end": Planted(among() + b"garbage", Kind.GARBAGE),
    "two archives": Planted(HEAD + END + TAIL + END, Kind.CONCATENATED),
    "a PAX record that is too long": Planted(among(pax(b"99 path=a\n"), sample("x")), Kind.BAD_EXTENSION, others=USUAL),
    "a PAX header of gigabytes": Planted(
        among(patched(pax(b"9 path=a\n")[:BLOCK], 124, b"77777777777\0", checksum=True)), Kind.BAD_EXTENSION
    ),
    "a long name without a member": Planted(HEAD + member("././@LongLink", b"n" * 200, b"L") + END, Kind.BAD_EXTENSION),
}

IN_MEMBERS = {
    # Types.
    "a symbolic link": Planted(among(sample("x"), member("x.txt", kind=b"2", link="0000.json")), Kind.SYMBOLIC_LINK),
    "a hard link": Planted(among(member("x.jpg", kind=b"1", link="0000.jpg")), Kind.HARD_LINK),
    "a device": Planted(among(member("x.jpg", kind=b"3")), Kind.DEVICE),
    "a named pipe": Planted(among(member("x.jpg", kind=b"6")), Kind.DEVICE),
    "a file of two volumes": Planted(among(member("x.jpg", b"abc", kind=b"M")), Kind.CONTINUED),
    "an unknown type": Planted(among(member("x.jpg", b"abc", kind=b"Q")), Kind.UNKNOWN_TYPE),
    "a sparse file": Planted(among(member("x.jpg", b"abc", kind=b"S")), Kind.SPARSE_MEMBER, others=USUAL),
    "a sparse file in PAX": Planted(
        among(pax(b"22 GNU.sparse.major=1\n"), member("x.jpg", b"abc")), Kind.SPARSE_MEMBER
    ),
    # Names.
    "no extension": Planted(among(member("README", b"abc")), Kind.NO_EXTENSION),
    "an empty extension": Planted(among(member("x.", b"abc")), Kind.EMPTY_EXTENSION, others=USUAL),
    "a hidden file": Planted(among(member(".hidden.jpg", PICTURE)), Kind.HIDDEN),
    "what macOS leaves": Planted(among(member("dir/._0001.jpg", b"abc")), Kind.HIDDEN),
    "a reserved name": Planted(among(member("__meta__/info.json", b"{}")), Kind.RESERVED),
    "an upper-case field": Planted(among(sample("x", cls=b"1", JPG=PICTURE, json=JSON)), Kind.UPPER_CASE),
    "a name in Latin-1": Planted(among(sample("x\udce4")), Kind.NOT_UTF8),
    "a line break in a name": Planted(among(sample("x\ny")), Kind.CONTROL),
    "an absolute name": Planted(among(sample("/data/x")), Kind.ABSOLUTE),
    "a name that leaves its folder": Planted(among(sample("../x")), Kind.PARENT),
    "a very long name": Planted(among(sample("x" * 300)), Kind.TOO_LONG, for_target(Target.GNU_TAR)),
    "a file that is a folder": Planted(
        among(sample("x"), sample("x.jpg/y")), Kind.FILE_AND_FOLDER, for_target(Target.GNU_TAR)
    ),
    "a colon for Windows": Planted(among(sample("x:y")), Kind.WINDOWS_NAME, for_target(Target.WINDOWS)),
    "a device of Windows": Planted(among(sample("aux")), Kind.WINDOWS_NAME, for_target(Target.WINDOWS)),
    "names that differ in case": Planted(
        among(sample("x"), sample("X")), Kind.CASE_COLLISION, for_target(Target.WINDOWS)
    ),
    "a space for DALI": Planted(among(sample("x y")), Kind.NAME_WITH_SPACE, for_target(Target.DALI)),
    "a long GNU name for DALI": Planted(among(sample("d/" * 60 + "x")), Kind.LONG_GNU_NAME, for_target(Target.DALI)),
    "compression for DALI": Planted(gzip.compress(among()), Kind.DALI_COMPRESSED, for_target(Target.DALI)),
    "underscores for Hugging Face": Planted(among(sample("__x")), Kind.HF_HIDDEN, hf()),
}

IN_SAMPLES = {
    # Samples.
    "a field twice": Planted(among(sample("x"), member("x.cls", b"8")), Kind.DUPLICATE_FIELD),
    "a field twice by case": Planted(
        among(sample("x"), member("x.CLS", b"8")), Kind.DUPLICATE_FIELD, others=frozenset({Kind.UPPER_CASE})
    ),
    "interleaved keys": Planted(
        among(sample("x", cls=b"1"), sample("y"), sample("x", jpg=PICTURE, json=JSON)), Kind.SPLIT_SAMPLE, others=USUAL
    ),
    "unsorted keys": Planted(among(sample("0000a")), Kind.UNSORTED, CheckOptions(in_order=True)),
    "a required field is missing": Planted(
        among(sample("x", jpg=PICTURE, json=JSON)), Kind.MISSING_FIELD, CheckOptions(fields=("jpg", "cls"))
    ),
    "a field that nearly all have is missing": Planted(
        good(0, 40) + sample("x", jpg=PICTURE, json=JSON) + END, Kind.UNUSUAL_FIELDS
    ),
    # Values.
    "bad JSON": Planted(among(BAD_JSON), Kind.UNDECODABLE),
    "a class that is no number": Planted(among(BAD_CLASS), Kind.UNDECODABLE),
    "a cut picture": Planted(among(sample("x", cls=b"1", jpg=PICTURE[:-60], json=JSON)), Kind.UNDECODABLE),
    "an empty picture": Planted(among(sample("x", cls=b"1", jpg=b"", json=JSON)), Kind.UNDECODABLE),
    "a picture of HTML": Planted(among(sample("x", cls=b"1", jpg=b"<html>", json=JSON)), Kind.UNDECODABLE),
    "text in Latin-1": Planted(among(sample("x", cls=b"1", jpg=PICTURE, json=JSON, txt=b"\xe4\xf6")), Kind.UNDECODABLE),
    "an array that is cut": Planted(
        among(sample("x", cls=b"1", jpg=PICTURE, json=JSON, npy=_array()[:-3])), Kind.UNDECODABLE
    ),
    "gzip in a field that is cut": Planted(
        among(sample("x", **{"cls": b"1", "jpg": PICTURE, "json": JSON, "txt.gz": gzip.compress(b"hello")[:-3]})),
        Kind.UNDECODABLE,
    ),
    "a pickle that runs code": Planted(
        among(sample("x", cls=b"1", jpg=PICTURE, json=JSON, pkl=b"cos\nsystem\n(S'true'\ntR.")), Kind.UNSAFE
    ),
    "a JPEG called png": Planted(
        among(sample("x", cls=b"1", jpg=PICTURE, json=JSON, png=PICTURE)), Kind.WRONG_EXTENSION
    ),
    # Hugging Face.
    "fields that differ among the first five": Planted(EXTRA + HEAD + END, Kind.HF_FIELDS, hf()),
    "a field that comes late": Planted(HEAD + EXTRA + END, Kind.HF_EXTRA_FIELD, hf()),
    "a type that changes": Planted(among(sample("x", cls=b"1", jpg=PICTURE, json=b'{"a": "one"}')), Kind.HF_TYPE, hf()),
    "a pickle": Planted(
        among(sample("x", cls=b"1", jpg=PICTURE, json=JSON, pkl=b"\x80\x04K\x01.")),
        Kind.HF_PICKLE,
        hf(),
        frozenset({Kind.HF_EXTRA_FIELD, Kind.HF_TYPE}),
    ),
}

FAULTS = IN_FILES | IN_MEMBERS | IN_SAMPLES


def _write(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return str(path)


def _described(folder, change):
    shard = _write(folder, "a.tar", among())
    content = json.loads(write_description(index_shards([shard], store_index=False)))
    change(content["shardlist"])
    return [_write(folder, "all.json", json.dumps(content).encode())]


def _indexed(folder, change):
    shard = _write(folder, "a.tar", among())
    index_shards([shard])
    index = folder / "a.idx"
    index.write_bytes(change(index.read_bytes()))
    return [shard]


def _two_shards(folder):
    return [_write(folder, "a.tar", HEAD + END), _write(folder, "b.tar", sample("0003") + TAIL + END)]


def _set(key, value):
    return lambda shards: shards[0].update({key: value})


# Faults that are not in one shard: name → (function of a folder that makes the inputs, the kind that must be found).
AROUND = {
    "a shard that is missing": (lambda folder: [str(folder / "no.tar")], Kind.MISSING_SHARD),
    "a folder in place of a shard": (lambda folder: [str(folder)], Kind.UNREADABLE_SHARD),
    "the same shard twice": (lambda folder: [_write(folder, "a.tar", among())] * 2, Kind.LISTED_TWICE),
    "a key in two shards": (_two_shards, Kind.DUPLICATE_KEY),
    "an index of another shard": (
        lambda f: _indexed(f, lambda data: data.replace(b" 0000.", b" 9999.")),
        Kind.STALE_INDEX,
    ),
    "an index with wrong offsets": (
        lambda f: _indexed(f, lambda data: data.replace(b"cls 512 1", b"cls 512 2")),
        Kind.STALE_INDEX,
    ),
    "an index that is too short": (
        lambda f: _indexed(f, lambda data: b"v1.2 1\n" + data.split(b"\n")[1] + b"\n"),
        Kind.STALE_INDEX,
    ),
    "an index of garbage": (lambda f: _indexed(f, lambda data: b"garbage\n"), Kind.BAD_INDEX),
    "an index that was cut": (lambda f: _indexed(f, lambda data: data[:-10]), Kind.BAD_INDEX),
    "an empty index": (lambda f: _indexed(f, lambda data: b""), Kind.BAD_INDEX),
    "another size than described": (lambda f: _described(f, _set("filesize", 512)), Kind.WRONG_SIZE),
    "another MD5 than described": (lambda f: _described(f, _set("md5sum", "0" * 32)), Kind.WRONG_MD5),
    "another count than described": (lambda f: _described(f, _set("nsamples", 99)), Kind.WRONG_COUNT),
    "a described shard that is missing": (lambda f: _described(f, _set("url", "no.tar")), Kind.MISSING_SHARD),
    "a description that lists a shard twice": (
        lambda f: _described(f, lambda shards: shards.append(shards[0])),
        Kind.LISTED_TWICE,
    ),
}
