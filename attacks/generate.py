"""Hostile shards: what each one is, and what reading it must lead to.

    python attacks/generate.py FOLDER

writes them all. `tests/samples/test_attacks.py` reads each and checks the verdict: the error that must be raised, and the
keys of the samples that may come out before it.
"""

import gzip
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

BLOCK = 512
END = bytes(2 * BLOCK)


class Attack(NamedTuple):
    shard: bytes
    error: str | None  # the class that must be raised; None: read without harm
    keys: tuple[str, ...] = ()


def member(name, payload=b"", kind=b"0", size=None, link="", format=tarfile.GNU_FORMAT):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = len(payload) if size is None else size
    return info.tobuf(format) + payload + bytes(-len(payload) % BLOCK)


def pax(records, kind=b"x"):
    return member("././@PaxHeader", records, kind)


def overwritten(block, start, content):
    return block[:start] + content + block[start + len(content) :]


def checksummed(block):
    total = sum(block[:148]) + 8 * 32 + sum(block[156:BLOCK])
    return overwritten(block, 148, b"%06o\0 " % total)


GOOD = member("1.txt", b"one") + member("1.cls", b"1")
NEXT = member("2.txt", b"two") + member("2.cls", b"2")


def attacks():
    """Name → attack."""
    huge = 10_000_000_000
    return {
        # Cut.
        "zero-bytes": Attack(b"", "TruncatedShard"),
        "no-end": Attack(GOOD + NEXT, "TruncatedShard", ("1",)),
        "half-an-end": Attack(GOOD + NEXT + bytes(BLOCK), "TruncatedShard", ("1",)),
        "cut-in-header": Attack(GOOD + NEXT[:100], "TruncatedShard"),
        "cut-in-payload": Attack(GOOD + NEXT[: BLOCK + 2], "TruncatedShard", ()),
        "cut-between-members-of-a-sample": Attack(GOOD + member("2.txt", b"two"), "TruncatedShard", ("1",)),
        "cut-gzip": Attack(gzip.compress(GOOD + END)[:-8], "TruncatedShard", ()),
        "gzip-with-wrong-crc": Attack(
            overwritten(gzip.compress(GOOD + END), -8 + len(gzip.compress(GOOD + END)), b"\0\0\0\0"), "BadHeader"
        ),
        "gzip-followed-by-garbage": Attack(gzip.compress(GOOD + END) + b"garbage behind", "BadHeader"),
        # Not what it claims to be.
        "html-page": Attack(b"<!DOCTYPE html><title>404</title>" * 40, "BadHeader"),
        "zip": Attack(b"PK\x03\x04" + b"\x14" * 2000, "BadHeader"),
        "garbage-behind-the-end": Attack(GOOD + END + b"\xa5" * BLOCK, "BadHeader", ()),
        "wiped-header": Attack(GOOD + bytes(BLOCK) + NEXT + END, "BadHeader"),
        "wrong-checksum": Attack(GOOD + overwritten(NEXT, 0, b"3") + END, "BadHeader"),
        # Sizes.
        "ten-gigabytes-claimed": Attack(GOOD + member("2.bin", b"x", size=huge) + END, "TruncatedShard"),
        "huge-size-in-pax": Attack(GOOD + pax(b"20 size=99999999999\n") + NEXT + END, "TruncatedShard"),
        "negative-size": Attack(GOOD + checksummed(overwritten(NEXT, 124, b"\xff" * 12)) + END, "BadHeader"),
        "size-2-to-the-95": Attack(
            GOOD + checksummed(overwritten(NEXT, 124, b"\x80\x7f" + b"\xff" * 10)) + END, "TruncatedShard"
        ),
        "size-in-words": Attack(GOOD + checksummed(overwritten(NEXT, 124, b"three bytes\0")) + END, "BadHeader"),
        # Extensions.
        "pax-that-claims-gigabytes": Attack(GOOD + member("pax", b"", b"x", size=huge) + END, "BadHeader"),
        "pax-record-beyond-its-end": Attack(GOOD + pax(b"99 path=a\n") + NEXT + END, "BadHeader"),
        "pax-record-of-length-zero": Attack(GOOD + pax(b"0 path=a\n") + NEXT + END, "BadHeader"),
        "pax-without-member": Attack(GOOD + pax(b"9 path=a\n") + END, "BadHeader"),
        "long-name-without-member": Attack(GOOD + member("././@LongLink", b"long name\0", b"L") + END, "BadHeader"),
        "sparse-gnu": Attack(GOOD + member("2.bin", b"", b"S") + END, "UnsupportedMember"),
        "sparse-pax": Attack(GOOD + pax(b"22 GNU.sparse.major=1\n") + NEXT + END, "UnsupportedMember"),
        "continued": Attack(GOOD + member("2.bin", b"", b"M") + END, "UnsupportedMember"),
        # Samples.
        "duplicate-field": Attack(GOOD + member("1.txt", b"again") + END, "DuplicateField"),
        "duplicate-by-case": Attack(GOOD + member("1.TXT", b"again") + END, "DuplicateField"),
        "interleaved-keys": Attack(GOOD + member("2.txt") + member("1.jpg") + END, "SplitSample", ("1", "2")),
        # Harmless, if read with care: names are never paths here.
        "path-traversal": Attack(member("../../etc/passwd.txt", b"x") + END, None, ("../../etc/passwd",)),
        "absolute-path": Attack(member("/etc/passwd.txt", b"x") + END, None, ("/etc/passwd",)),
        "hidden-and-meta": Attack(
            member("d/._1.txt") + member("__meta__/x.json") + member(".x.txt") + GOOD + END, None, ("1",)
        ),
        "stored-address": Attack(member("1.__url__", b"evil") + GOOD + END, None, ("1",)),
        "stored-key": Attack(member("1.__key__", b"2") + GOOD + END, "DuplicateField"),
        "tar-in-a-tar": Attack(member("1.tar", GOOD + END) + END, None, ("1",)),
        "name-of-junk": Attack(checksummed(overwritten(GOOD, 20, b"\xff" * 60)) + END, None, ("1",)),
        "names-that-are-no-text": Attack(member("\udcff\udcfe.txt", b"x") + END, None, ("\udcff\udcfe",)),
    }


def main(folder):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, attack in attacks().items():
        (Path(folder) / f"{name}.tar").write_bytes(attack.shard)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "hostile-shards")
