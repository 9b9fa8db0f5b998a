import os
import pickle
import tarfile

import pytest
from tests.index.archives import expected, make, many
from hypothesis import given, settings, strategies as st

from webdataset import stores
from webdataset.errors import DuplicateField, ShardNotFound, SpecError, StaleIndex, WebDatasetError
from webdataset.index import ShardReader, build, build_index, read_dali, write_dali


@pytest.fixture(params=["file", "memory"])
def shard(request, tmp_path):
    def store(data, name="a.tar"):
        url = str(tmp_path / name) if request.param == "file" else f"memory://lookup/{name}"
        with stores.open_write(url) as stream:
            stream.write(data)
        return url

    return store


@pytest.fixture
def reader_of(shard):
    opened = []

    def make_reader(data, index=None):
        url = shard(data)
        opened.append(ShardReader(url, index or build_index(url)))
        return opened[-1]

    yield make_reader
    for reader in opened:
        reader.close()


def bare(sample):
    return {key: value for key, value in sample.items() if not key.startswith("__")}


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_sample_in_any_order(reader_of, format):
    members = many(40) + [("é" * 70 + ".jpg", b"long"), ("d" * 120 + ".txt", b""), ("x.JPG", b"upper")]
    if format == tarfile.USTAR_FORMAT:
        members = many(40) + [("d" * 60 + "/" + "n" * 90 + ".txt", b""), ("x.JPG", b"upper")]
    reader = reader_of(make(members, format))
    wanted = expected(members)
    for number in reversed(range(len(reader.index))):
        sample = reader.sample(number)
        assert bare(sample) == wanted[sample["__key__"]] and sample["__url__"] == reader.url
    assert sorted(s["__key__"] for s in reader.samples(range(len(reader.index)))) == sorted(wanted)


def test_local_samples_say_where_they_lie(tmp_path):
    (tmp_path / "a.tar").write_bytes(make(many(1)))
    reader = ShardReader(str(tmp_path / "a.tar"), build_index(str(tmp_path / "a.tar")))
    assert reader.sample(0)["__local_path__"] == str(tmp_path / "a.tar")
    reader.close()


def test_only_the_fields_that_are_wanted(reader_of):
    reader = reader_of(make(many(10)))
    assert [sorted(bare(s)) for s in reader.samples([3, 1], ["json"])] == [["json"]] * 2
    assert bare(reader.sample(0, ["nope"])) == {} and bare(reader.sample(0, [])) == {}


def test_an_index_without_keys_reads_them_from_the_archive(reader_of):
    members = [("a b.jpg", b"x" * 600), ("a b.txt", b"y"), ("c.jpg", b"z")]
    data = make(members)
    url_index = read_dali(write_dali(build([("a b.jpg", 512, 600), ("a b.txt", 2048, 1), ("c.jpg", 3072, 1)])))
    assert url_index.key(0) is None
    reader = reader_of(data, url_index)
    assert [s["__key__"] for s in reader.samples([0, 1])] == ["a b", "c"]
    assert bare(reader.sample(0)) == {"jpg": b"x" * 600, "txt": b"y"}


def changed(members, how):
    if how == "another shard":
        return many(20, start=100)
    if how == "a sample more":
        return members + many(1, start=20)
    if how == "a field more":
        return members + [("dir/000019.zzz", b"1")]
    if how == "a sample less":
        return members[:-2]
    if how == "longer in the middle":
        return [(n, p + b"x" * 600 if i == 10 else p) for i, (n, p) in enumerate(members)]
    if how == "a byte longer in the middle":
        return [(n, p + b"x" if i == 10 else p) for i, (n, p) in enumerate(members)]
    if how == "renamed in the middle":
        return [(n.replace("000005", "000555"), p) for n, p in members]
    if how == "a longer field name":
        return [(n.replace("5.jpg", "5.jpgx"), p) for n, p in members]
    if how == "a field renamed":
        return [(n.replace("5.jpg", "5.png"), p) for n, p in members]
    return members[2:] + members[:2]  # another order


@pytest.mark.parametrize("how", [
    "another shard", "a sample more", "a field more", "a sample less", "longer in the middle", "a byte longer in the middle",
    "renamed in the middle", "a field renamed", "a longer field name", "another order",
])  # fmt: skip
def test_a_stale_index_is_always_noticed_and_never_used(shard, how):
    members = many(20)
    old = build_index(shard(make(members)))
    reader = ShardReader(shard(make(changed(members, how))), old)
    wanted, refused = expected(members), 0
    for number in range(20):
        try:
            sample = reader.sample(number)
        except StaleIndex as error:
            refused += 1
            assert error.where.shard == reader.url and "build it again" in error.hint
        else:
            assert bare(sample) == wanted[sample["__key__"]]  # whatever is handed out is what the archive says
    assert refused
    reader.close()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_foreign_index_never_gives_wrong_data(data):
    names = st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["x", "y"])),
        min_size=1,
        max_size=6,
        unique=True,
    )
    payload = st.binary(max_size=700)
    first, second = ([(f"{k}.{f}", data.draw(payload)) for k, f in data.draw(names)] for _ in range(2))
    url = "memory://foreign/a.tar"
    for content in (first, second):
        with stores.open_write(url) as stream:
            stream.write(make(content))
        if content is first:
            index = build_index(url)
    reader = ShardReader(url, index)
    truth = dict(second)
    for number in range(len(index)):
        try:
            sample = reader.sample(number)
        except WebDatasetError:
            continue
        for field, value in bare(sample).items():
            assert truth[f"{sample['__key__']}.{field}"] == value


def test_other_content_of_the_same_shape_is_read_as_it_is(reader_of, shard):
    old = build_index(shard(make([("a.txt", b"abc"), ("b.txt", b"def")])))
    reader = reader_of(make([("a.txt", b"xyz"), ("b.txt", b"uvw")]), old)
    assert [s["txt"] for s in reader.samples([0, 1])] == [b"xyz", b"uvw"]


def test_members_of_no_sample_may_follow_the_last_one(reader_of):
    reader = reader_of(make(many(2) + [("dir", None), ("README", b"x" * 2000)]))
    assert reader.sample(1)["__key__"] == "dir/000001"


def test_two_archives_put_together_later_are_noticed(shard):
    first, second = make(many(2)), make(many(2, start=2))
    index = build_index(shard(first))
    with pytest.raises(StaleIndex, match="more samples after"):
        ShardReader(shard(first + second), index).sample(0)


def test_a_cut_shard_is_noticed(shard):
    data = make(many(20))
    index = build_index(shard(data))
    with pytest.raises(StaleIndex, match="the shard has"):
        ShardReader(shard(data[: index.end - 512]), index).sample(0)
    with pytest.raises(StaleIndex):
        ShardReader(shard(b""), index).sample(0)


def test_a_shard_that_vanished(tmp_path):
    reader = ShardReader(str(tmp_path / "gone.tar"), build([("a.x", 512, 1)]))
    with pytest.raises(ShardNotFound, match="gone.tar"):
        reader.sample(0)


def test_duplicate_fields_are_refused(reader_of):
    reader = reader_of(make([("a.x", b"1"), ("a.X", b"2")]))
    with pytest.raises(DuplicateField, match="field x, sample a"):
        reader.sample(0)


def test_packed_shards_are_refused_with_the_reason():
    with pytest.raises(SpecError, match="compressed"):
        ShardReader("a.tar.gz", build([("a.x", 512, 1)]))


def test_readers_cross_processes(reader_of):
    reader = reader_of(make(many(3)))
    first = reader.sample(2)
    again = pickle.loads(pickle.dumps(reader))
    assert again.sample(2) == first
    again.close()


def test_numbers_outside(reader_of):
    reader = reader_of(make(many(3)))
    with pytest.raises(IndexError):
        reader.sample(3)


def test_nothing_stays_open(tmp_path):
    (tmp_path / "a.tar").write_bytes(make(many(1)))
    reader = ShardReader(str(tmp_path / "a.tar"), build_index(str(tmp_path / "a.tar")))
    reader.sample(0)
    reader.close()
    reader.close()
    assert reader.sample(0)["__key__"] == "dir/000000"
    reader.close()
    assert str(tmp_path / "a.tar") not in [
        os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
    ]
