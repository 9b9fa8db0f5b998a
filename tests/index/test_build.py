import io
import tarfile

import pytest
from tests.index.archives import expected, make, many
from hypothesis import given, settings, strategies as st

from webdataset import index, samples, stores, tar
from webdataset.errors import TruncatedShard

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def put(data, url="memory://index-build/a.tar"):
    with stores.open_write(url) as stream:
        stream.write(data)
    return url


def as_tarfile_sees_it(data):
    """A second opinion: the standard library's offsets."""
    rows = []
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for info in archive:
            if info.isreg() and index.sample_and_field(info.name):
                rows.append((info.name, info.offset_data, info.size))
    return rows


NAMES = st.builds(
    lambda stem, ext: f"{stem}.{ext}",
    st.text("abé /", min_size=1, max_size=120).filter(lambda s: not s.endswith("/")),
    st.sampled_from(["jpg", "a.b", "TXT"]),
)


@given(st.lists(st.tuples(NAMES, st.binary(max_size=1500)), max_size=8), st.sampled_from(FORMATS[1:]))
@settings(max_examples=60, deadline=None)
def test_offsets_are_those_of_the_standard_library(members, format):
    data = make(members, format)
    built = index.build_index(put(data))
    rows = as_tarfile_sees_it(data)
    got = [(extent.offset, extent.size) for extents in built.rows() for extent in extents]
    assert got == [(offset, size) for _, offset, size in rows]
    for extents in built.rows():
        for extent in extents:
            assert data[extent.offset : extent.stop] in [payload for _, payload in members]


@pytest.mark.parametrize("format", FORMATS)
def test_samples_have_the_numbers_of_the_stream(format):
    members = (
        many(30)
        + [("dir", None), ("noext", b"x"), ("dir/._x.jpg", b"x"), ("__meta__/a.json", b"{}")]
        + many(5, start=30)
    )
    url = put(make(members, format))
    streamed = [sample["__key__"] for sample in samples.read_shard({"url": url})]
    built = index.build_index(url)
    assert [built.key(number) for number in range(len(built))] == streamed
    assert len(built) == 35 and built.fields == ("jpg", "json")


def test_a_key_that_comes_again_is_a_new_sample():
    built = index.build([("a.x", 512, 1), ("b.x", 1536, 1), ("a.y", 2560, 1)])
    assert list(built.keys) == ["a", "b", "a"] and built.find("a") == 0


def test_an_empty_archive_has_an_index_too():
    built = index.build_index(put(make([])))
    assert len(built) == 0 and built.end == 0 and index.read_dali(index.write_dali(built)) == built


def test_concatenated_archives_are_indexed_to_their_end():
    first, second = make(many(3)), make(many(3, start=3))
    url = put(first + second)
    built = index.build_index(url)
    reader = index.ShardReader(url, built)
    assert len(built) == 6
    assert {s["__key__"]: {"jpg": s["jpg"], "json": s["json"]} for s in reader.samples(range(6))} == expected(many(6))


def test_a_truncated_shard_is_not_indexed():
    with pytest.raises(TruncatedShard, match="index-build"):
        index.build_index(put(make(many(3))[:-9000]))


def test_learned_while_a_stream_goes_by():
    data = make(many(20))
    builder, seen = index.IndexBuilder(), []
    for member in tar.read_members(io.BytesIO(data)):
        builder.add(member.name, member.data_offset, member.size)
        seen.append(member.data)
    assert builder.finish() == index.build_index(put(data)) and len(seen) == 40


def test_keys_are_compact_and_exact():
    keys = ["a", "", "dir/é", "x" * 300, "\udcff"]
    compact = index.Keys(keys)
    assert list(compact) == keys == [compact[n] for n in range(5)] and len(compact) == 5


def test_memory_stays_in_columns():
    import tracemalloc

    members = [(f"{n:08d}.jpg", 512 + 1024 * n, 100) for n in range(50_000)]
    tracemalloc.start()
    built = index.build(members)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(built) == 50_000 and held / 50_000 < 64  # bytes per sample
