"""A survey finds what a reader finds in good archives, and in damaged ones everything that is still whole."""

import gzip
import io
import random
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdataset.tar import END_OF_ARCHIVE, Damage, DamageKind, Surveyed, encode_header, padding, read_members, survey

BLOCK = 512


def member(name, data, format=None):
    return encode_header(name, len(data), format=format) + data + padding(len(data))


def numbered(count, size=700, seed=0):
    """Members whose payloads tell which they are: a payload that is wrong is noticed."""
    rng = random.Random(seed)
    return {f"{n:04d}.bin": bytes([n]) * 4 + rng.randbytes(rng.randrange(size)) for n in range(count)}


def archive(members, format=None):
    return b"".join(member(name, data, format) for name, data in members.items()) + END_OF_ARCHIVE


def found(data):
    items = list(survey(data))
    good = {item.name: item.data for item in items if isinstance(item, Surveyed)}
    return good, [item for item in items if isinstance(item, Damage)]


names = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=300
)
named = names.filter(lambda name: not name.endswith("/") and len(name.encode()) < 900)


@given(st.lists(st.tuples(named, st.binary(max_size=2000)), max_size=6), st.sampled_from([None, "gnu", "pax"]))
def test_a_good_archive_is_what_a_reader_finds(members, format):
    data = b"".join(member(name, payload, format) for name, payload in members) + END_OF_ARCHIVE
    items = list(survey(data))
    expected = [(each.name, each.offset, each.data_offset, each.data) for each in read_members(data)]
    assert [(each.name, each.offset, each.data_offset, each.data) for each in items] == expected


@pytest.mark.parametrize("window", [1, 511, 512, 4096])
def test_a_stream_may_hand_out_small_pieces(window):
    class Dripping(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, window))

    members = numbered(5)
    assert {item.name: item.data for item in survey(Dripping(archive(members)))} == members


def test_wherever_an_archive_is_cut_the_members_before_are_found():
    members = numbered(5)
    data, ends, at = archive(members), {}, 0
    for name, payload in members.items():
        at += BLOCK + len(payload)
        ends[name] = at
        at += -at % BLOCK
    for cut in [*range(0, len(data), 97), *(end + step for end in ends.values() for step in (-1, 0, 1))]:
        good, damage = found(data[:cut])
        assert good == {name: payload for name, payload in members.items() if ends[name] <= cut}
        complete = cut >= at + 2 * BLOCK
        assert len(damage) == (not complete), cut


@pytest.mark.parametrize("format", [None, "gnu", "pax"])
def test_a_changed_header_byte_costs_one_member_at_most(format):
    members = numbered(5)
    data = archive(members, format)
    start = next(item.offset for item in survey(data) if item.name == "0002.bin")
    for place in range(BLOCK):
        for mask in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[start + place] ^= mask
            good, damage = found(bytes(changed))
            assert {name: good.get(name) for name in members if name != "0002.bin"} == {
                name: payload for name, payload in members.items() if name != "0002.bin"
            }, place
            assert set(good) <= set(members)
            assert damage or place >= 500 or place in {154, 155}  # bytes that no reader looks at


DAMAGES = ("delete", "insert", "overwrite", "zero")


@pytest.mark.parametrize("how", DAMAGES)
def test_whatever_is_damaged_no_other_member_is_wrong(how):
    """Bytes removed, added or changed somewhere: what lies whole before and after is found, and nothing wrong is."""
    for seed in range(100):
        damage_somewhere(seed, how)


@pytest.mark.long
@pytest.mark.parametrize("how", DAMAGES)
def test_whatever_is_damaged_no_other_member_is_wrong_in_many_places(how):
    for seed in range(100, 10_000):
        damage_somewhere(seed, how)


def damage_somewhere(seed, how):
    rng = random.Random(seed)
    length = rng.choice([rng.randrange(1, 20), rng.randrange(1, 3000), 512, 1024])
    members = numbered(12, seed=seed)
    data = archive(members)
    at = rng.randrange(len(data) - 2 * BLOCK)
    # A checksum is a sum of 512 bytes: one that is changed itself may by chance become right again.
    if any(item.offset + 148 - length < at < item.offset + 156 for item in survey(data)) and length < 200:
        return
    new = {
        "delete": b"",
        "insert": data[at : at + length] and rng.randbytes(length),
        "overwrite": rng.randbytes(length),
        "zero": bytes(length),
    }[how]
    changed = data[:at] + new + data[at if how == "insert" else at + length :]
    touched = range(at, at + (1 if how == "insert" else length))
    good, damage = found(changed)
    offsets = {item.name: (item.offset, item.data_offset + len(item.data)) for item in survey(data)}
    for name, payload in members.items():
        start, stop = offsets[name]
        doubted = [each.data for each in damage if each.name == name]
        if stop <= at:
            # The last member before the damage may be doubted: its end is not where the next header is.
            assert good.get(name, payload) == payload
            # Its payload is kept all the same.
            assert name in good or (at - stop < 2 * BLOCK and doubted == [payload])
        elif touched.stop <= start < len(data) - 8 * BLOCK:
            # Members followed by the end mark could be an archive in a payload, and are not taken out of it.
            assert good.get(name) == payload or doubted == [payload]  # after a header that looks like an extended one
    assert set(good) <= set(members)


def test_a_tar_in_a_tar_stays_inside():
    inner = archive(numbered(3, seed=7))
    members = {"a.tar": inner, "b.bin": b"1", "c.tar": inner}
    assert found(archive(members)) == (members, [])
    for broken in range(3):
        start = [0, BLOCK + len(inner), BLOCK + len(inner) + 2 * BLOCK][broken]
        data = bytearray(archive(members))
        data[start] ^= 1
        good, damage = found(bytes(data))
        assert set(good) == set(members) - {list(members)[broken]}
        assert [each.kind for each in damage] == [DamageKind.BAD_CHECKSUM]


def test_what_comes_out_of_damaged_compression_is_kept():
    members = {f"{n}.bin": random.Random(n).randbytes(200_000) for n in range(10)}
    packed = gzip.compress(archive(members), 1)
    good, damage = found(packed[: len(packed) // 2])
    assert 3 <= len(good) <= 5
    assert all(good[name] == members[name] for name in good)
    assert [each.kind for each in damage] == [DamageKind.CUT_COMPRESSION]


def test_types_and_links():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as writing:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("x")
            info.type, info.linkname = kind, "y" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            writing.addfile(info)
    assert [(item.kind, item.link) for item in survey(stream.getvalue())] == [
        (b"5", ""),
        (b"2", "y"),
        (b"1", "y"),
        (b"6", ""),
    ]


def test_memory_is_that_of_the_largest_member(tmp_path):
    import tracemalloc

    path = tmp_path / "a.tar"
    with path.open("wb") as file:
        for number in range(60):
            file.write(member(f"{number}.bin", bytes([number]) * (1 << 20)))
        file.write(END_OF_ARCHIVE)
    tracemalloc.start()
    with path.open("rb") as file:
        assert sum(1 for _ in survey(file)) == 60
    _, peak = tracemalloc.get_traced_memory()
    with path.open("rb") as file:  # noise without end: nothing is kept while a header is looked for
        file.seek(BLOCK)
        assert [item.name for item in survey(file) if isinstance(item, Surveyed)] == [f"{n}.bin" for n in range(1, 60)]
    tracemalloc.stop()
    assert peak < 16 << 20
