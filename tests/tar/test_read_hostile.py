import tarfile

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.tar.reading import WINDOWS, outcome
from webdataset.errors import BadHeader, TruncatedShard, UnsupportedMember
from webdataset.tar import read_members
from webdataset.tar._pax_records import apply


@given(st.binary(max_size=3000))
def test_garbage_is_never_data(garbage):
    found, _, error, _ = outcome(garbage)
    assert not found
    assert error is not None or not garbage.strip(b"\0")


def test_ten_gigabytes_claimed_in_a_kilobyte(tar, checksum):
    import tracemalloc

    info = tarfile.TarInfo("huge.bin")
    info.size = 10_000_000_000
    archive = info.tobuf(tarfile.GNU_FORMAT) + b"x" * 512
    tracemalloc.start()
    found, _, error, message = outcome(archive)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found, error) == ([], TruncatedShard)
    assert "512 of 10,000,000,000 bytes of the payload of huge.bin" in message
    assert peak < 40 << 20  # untouched: BytesIO gives what it has


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_extensions_that_claim_too_much_are_refused(kind):
    info = tarfile.TarInfo("extension")
    info.size, info.type = 10_000_000_000, kind
    with pytest.raises(BadHeader, match="take 10,000,000,512 bytes, at most 1,048,576 are allowed"):
        list(read_members(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096)))


def test_an_extension_needs_a_member(tar):
    extension = tar([("long" * 50, b"")], tarfile.GNU_FORMAT)[:1024]
    with pytest.raises(BadHeader):
        list(read_members(extension + bytes(1024)))


def test_every_type_flag(tar):
    """Any type flag, checksum right: read, passed over, reported or refused, and the next member is found."""
    for kind in (bytes([flag]) for flag in range(256)):
        content = b"9 path=z\n" if kind in b"xXg" else b"abc"
        info = tarfile.TarInfo("odd.txt")
        info.type, info.size = kind, len(content)
        payload = b"" if kind in b"123456" else content + bytes(512 - len(content))
        found, skipped, error, _ = outcome(info.tobuf(tarfile.GNU_FORMAT) + payload + tar([("next.txt", b"def")]))
        if kind in b"SM":
            assert error is UnsupportedMember
            continue
        assert error is None, kind
        assert found[-1].data == b"def", kind
        assert len(found) == (2 if kind in b"0\x007" else 1), kind
        assert bool(skipped) == (kind not in b"0\x0073456xXgLK"), kind


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.binary(min_size=512, max_size=512), st.integers(0, 255), st.sampled_from([0, 1, 511, 8**10])),
        max_size=20,
    )
)
@example([(b"a" * 512, 0x78, 511)])
def test_checksum_valid_nonsense(checksum, trickle, fast, headers):
    """Random header blocks with right checksums and likely sizes: an answer or a typed error, the same at any window."""
    archive = b""
    for noise, kind, size in headers:
        block = bytearray(noise)
        block[124:136] = b"%011o\0" % size
        block[156] = kind
        archive += checksum(block) + noise[: -(-min(size, 512) // 512) * 512]
    archive += bytes(1024)
    first = outcome(trickle(archive), window=512)
    for window in WINDOWS[1:]:
        assert outcome(trickle(archive), window=window) == first


def record(keyword, value):
    rest = b" %s=%s\n" % (keyword, value)
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d" % length + rest


def extension(kind, body):
    info = tarfile.TarInfo("extension")
    info.size, info.type = len(body), kind
    return info.tobuf(tarfile.GNU_FORMAT) + body + bytes(-len(body) % 512)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L"])
@pytest.mark.parametrize("shape", ["many headers", "many records"])
def test_any_number_of_extensions_is_bounded_and_the_limit_named(kind, shape, tar):
    """Extensions are kept in memory until the member comes: each small, without end."""
    if shape == "many headers":
        large = b"y" * 4000
        parts = (extension(kind, b"n" * 4000 if kind == b"L" else record(b"k%d" % n, large)) for n in range(600))
    else:
        body = b"n" * 2**20 + b"n" if kind == b"L" else b"".join(record(b"k%d" % n, b"v") for n in range(150_000))
        parts = (extension(kind, body),)
    with pytest.raises(BadHeader, match=r"at most 1,048,576 are allowed"):
        list(read_members(b"".join(parts) + tar([("a.txt", b"abc")])))


def test_global_records_that_change_nothing_cost_nothing_per_member(tar, monkeypatch):
    """Otherwise 1 MB of them made each of any number of members take 4 ms."""
    applied = []
    monkeypatch.setattr(
        "webdataset.tar._extended_headers.apply",
        lambda header, changes, offset: (applied.append(changes), apply(header, changes, offset))[1],
    )
    many = b"".join(record(b"k%d" % n, b"v") for n in range(50_000)) + record(b"linkpath", b"a")
    members = list(read_members(extension(b"g", many) + tar([("a.txt", b"abc"), ("b.txt", b"d")])))
    assert [member.name for member in members] == ["a.txt", "b.txt"]
    assert applied == [{"linkpath": "a"}] * 2


def test_global_records_that_repeat_themselves_are_fine(tar):
    again = extension(b"g", record(b"comment", b"y" * 100_000))
    archive = again * 30 + tar([("a.txt", b"abc")])
    assert [member.name for member in read_members(archive)] == ["a.txt"]
