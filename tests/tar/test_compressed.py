import bz2
import gzip
import io
import lzma
import random
import sys
import tarfile
import tracemalloc
import zlib

import pytest

from webdataset.errors import BadHeader, FormatError, MissingDependency, StoreError, TruncatedShard
from webdataset.tar import read_members
from webdataset.decompress import COMPRESSIONS, Unpacked, find_compression, load_zstd

zstd = load_zstd("to test")
PACK = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
}
KINDS = pytest.mark.parametrize("kind", PACK)
CONTENT = bytes(range(256)) * 500 + b"end"


def unpack(packed, step=None, stream=None):
    unpacked = Unpacked(stream or io.BytesIO(packed), find_compression(packed), limit=2**30)
    return b"".join(iter(lambda: unpacked.read(step or 1 << 20), b""))


def test_every_format_is_tried_here():
    assert {kind.name for kind in COMPRESSIONS} == set(PACK)


@KINDS
@pytest.mark.parametrize("step", [1000, 512, 1 << 20])
def test_one_stream(kind, step):
    assert unpack(PACK[kind](CONTENT), step) == CONTENT


@KINDS
def test_streams_that_arrive_in_crumbs(kind, trickle):
    packed = PACK[kind](CONTENT)
    assert unpack(packed, stream=trickle(packed, step=7)) == CONTENT


@KINDS
def test_several_streams_one_after_the_other(kind):
    packed = PACK[kind](CONTENT) + PACK[kind](b"") + PACK[kind](b"more")
    assert unpack(packed) == CONTENT + b"more"


@KINDS
def test_zeros_may_pad(kind, trickle):
    packed = PACK[kind](CONTENT) + bytes(512)
    assert unpack(packed) == unpack(packed, stream=trickle(packed, step=11)) == CONTENT


@KINDS
def test_garbage_behind_the_end_is_an_error(kind):
    with pytest.raises(BadHeader, match="garbage"):
        unpack(PACK[kind](CONTENT) + b"garbage behind the end")


@KINDS
def test_D03_every_cut_of_a_compressed_stream_is_an_error(kind):
    packed = PACK[kind](b"some text, " * 20)
    for cut in range(10, len(packed)):
        with pytest.raises(TruncatedShard, match=f"{kind} stream is truncated"):
            unpack(packed[:cut])


@KINDS
def test_D03_a_wrong_check_value_is_an_error(kind):
    packed = bytearray(PACK[kind](b"some text, " * 20))
    at = {"gzip": -6, "bzip2": -3, "xz": -33, "zstd": -2}[kind]
    packed[at] ^= 0x10
    with pytest.raises(FormatError):
        unpack(bytes(packed))


def test_what_was_unpacked_before_the_damage_comes_first():
    packed = gzip.compress(CONTENT, 0)[:-100]
    unpacked = Unpacked(io.BytesIO(packed), find_compression(packed), limit=2**30)
    assert CONTENT.startswith(unpacked.read(1 << 20))
    with pytest.raises(TruncatedShard):
        unpacked.read(1 << 20)


@KINDS
def test_what_stands_before_something_wrong_behind_the_end_comes_first(kind, trickle):
    packed = PACK[kind](CONTENT)
    late = Unpacked(trickle(packed, failure=StoreError("reset")), find_compression(packed), limit=2**30)
    garbled = Unpacked(io.BytesIO(packed + b"garbage here"), find_compression(packed), limit=2**30)
    for unpacked, error in ((late, StoreError), (garbled, BadHeader)):
        assert unpacked.read(1 << 20) == CONTENT
        with pytest.raises(error):
            unpacked.read(1 << 20)


@KINDS
@pytest.mark.parametrize("step", [1000, 1 << 20])
def test_bytes_come_into_memory_of_the_caller_in_the_same_order(kind, step):
    """Mutation: fill from the beginning of what is left over twice."""
    packed = PACK[kind](CONTENT) + PACK[kind](CONTENT)
    unpacked = Unpacked(io.BytesIO(packed + b"garbage here"), find_compression(packed), limit=2**30)
    found, memory = bytearray(), memoryview(bytearray(step))
    with pytest.raises(BadHeader) as failure:
        while count := unpacked.readinto(memory):
            found += memory[:count]
            found += unpacked.read(7)
    assert found == CONTENT + CONTENT
    with pytest.raises(BadHeader) as again:
        unpacked.readinto(memory)
    assert again.value is failure.value


def test_a_bomb_does_not_explode():
    """64 MB of zeros in 64 kB are unpacked as they are asked for."""
    import tracemalloc

    packer = zlib.compressobj(1, wbits=31)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    unpacked = Unpacked(io.BytesIO(packed), find_compression(packed), limit=2**30)
    tracemalloc.start()
    unpacked.read(1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_zstd_skippable_frames_are_skipped():
    packed = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"info" + PACK["zstd"](CONTENT)
    assert unpack(packed) == CONTENT


def test_zstd_without_its_package_names_the_extra(monkeypatch):
    packed = PACK["zstd"](CONTENT)
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=r"webdataset\[compression\]"):
        unpack(packed)


@KINDS
def test_archives(kind, tar):
    archive = tar([("a.txt", b"abc"), ("b.txt", b"x" * 100_000)])
    assert list(read_members(PACK[kind](archive))) == list(read_members(archive))


@KINDS
def test_cut_archives_are_noticed_behind_their_end_mark(kind, tar):
    """The archive is complete, its packer's trailer is not."""
    packed = PACK[kind](tar([("a.txt", b"abc")]))
    members = read_members(packed[:-1])
    with pytest.raises(TruncatedShard):
        list(members)


def test_a_name_that_looks_packed_is_a_name(tar):
    assert [m.name for m in read_members(tar([("BZh9.txt", b"abc")]))] == ["BZh9.txt"]


@KINDS
def test_blocks_that_are_larger_than_what_is_unpacked_at_once(kind):
    letters = random.Random(0).choices(b"abcdefghijklmnop", k=1_000_000)  # half their size, in blocks of 64 kB
    assert unpack(PACK[kind](bytes(letters))) == bytes(letters)


class Zeros:
    """A tar of one member, compressed piece by piece: a few bytes that decompress to many."""

    def __init__(self, size, before=b"", after=b""):
        self.size, self.before, self.after = size, before, after

    def __call__(self, packer):
        pieces = [packer.compress(self.before)]
        for _ in range(self.size >> 20):
            pieces.append(packer.compress(bytes(1 << 20)))
        pieces += [packer.compress(self.after), packer.flush()]
        return b"".join(pieces)


PACKERS = {
    "gzip": lambda: zlib.compressobj(9, zlib.DEFLATED, 31),
    "bzip2": bz2.BZ2Compressor,
    "xz": lzma.LZMACompressor,
    "zstd": zstd.ZstdCompressor,
}


LIMIT = 2_000_000


def largest_in_memory(archive):
    """What the reader takes of memory at most, in bytes."""
    tracemalloc.start()
    try:
        for _ in read_members(archive, limit=LIMIT):
            pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@KINDS
def test_a_member_of_a_compressed_archive_is_limited(kind):
    info = tarfile.TarInfo("bomb.txt")
    info.size = 32 << 20
    archive = Zeros(32 << 20, info.tobuf(), bytes(1024))(PACKERS[kind]())
    with pytest.raises(
        FormatError, match=r"a member of a compressed archive has 33,554,432 bytes.*WDS_DECOMPRESS_LIMIT"
    ):
        largest_in_memory(archive)
    assert [member.size for member in read_members(archive)] == [32 << 20]


@pytest.mark.parametrize("kind", ["bzip2", "xz", "zstd"])
def test_a_whole_archive_of_nothing_is_limited(kind):
    """What follows the end of an archive is read too: zeros without end. gzip cannot do it, 1,032 to one is its best."""
    info = tarfile.TarInfo("a.txt")
    archive = Zeros(32 << 20, info.tobuf())(PACKERS[kind]())
    with pytest.raises(FormatError, match=r"decompress to more than .*WDS_DECOMPRESS_LIMIT"):
        list(read_members(archive, limit=LIMIT))


@pytest.mark.parametrize(
    "kind", [kind if kind in {"gzip", "zstd"} else pytest.param(kind, marks=pytest.mark.long) for kind in PACK]
)
def test_a_large_archive_of_small_members_passes_any_limit_and_is_streamed(kind):
    info = tarfile.TarInfo("a.bin")
    info.size = 1 << 20
    noise = random.Random(0).randbytes(1 << 20)
    archive = PACK[kind]((info.tobuf() + noise) * 24 + bytes(1024))
    peak = largest_in_memory(archive)
    assert peak < 16 << 20


def with_large_window(kind):
    """A stream that says that its decoder has to remember gigabytes; it is small all the same."""
    if kind == "zstd":
        return b"\x28\xb5\x2f\xfd" + bytes((0, 0xA8)) + bytes((1, 0, 0))  # 2**31 bytes, an empty last block
    packed = bytearray(lzma.compress(CONTENT))
    end = 12 + (packed[12] + 1) * 4  # of the header of the first block, which ends with its checksum
    packed[packed.index(b"\x21\x01", 12) + 2] = 40
    packed[end - 4 : end] = zlib.crc32(packed[12 : end - 4]).to_bytes(4, "little")
    return bytes(packed)


@pytest.mark.parametrize("kind", ["xz", "zstd"])
def test_what_a_decoder_may_remember_is_limited(kind):
    """A shard of 4 MB would take 4 GB, however small its members are."""
    with pytest.raises(BadHeader, match=r"emory"):
        unpack(with_large_window(kind))


def test_the_largest_setting_of_xz_passes():
    assert unpack(lzma.compress(CONTENT, preset=9)) == CONTENT
