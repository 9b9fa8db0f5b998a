import gzip
import io

import pytest
from tests.samples.reference import group_members
from hypothesis import given, settings
from hypothesis import strategies as st

from webdataset.errors import DuplicateField, SplitSample
from webdataset.flow import EndOfStreamError
from webdataset.handlers import ignore_and_continue, ignore_and_stop
from webdataset.samples import read_shard
from webdataset.samples._gather_samples import Gathered, Gatherer
from webdataset.tar import Member, Run, read_members, read_runs


def group(names, **options):
    members = [Member(name, 512 * n, 512 * n + 512, str(n).encode()) for n, name in enumerate(names)]
    return [
        {k: v for k, v in sample.items() if k != "__url__"} for sample in group_members(members, url="a.tar", **options)
    ]


def gather(runs, **options):
    gathered, gatherer = Gathered([], []), Gatherer(url="a.tar", **options)
    try:
        for run in runs:
            gatherer.feed(run, gathered)
        gatherer.finish(gathered)
    except EndOfStreamError:
        pass
    return gathered


def test_consecutive_members_with_one_key():
    assert group(["1.a", "1.b", "2.a"]) == [{"__key__": "1", "a": b"0", "b": b"1"}, {"__key__": "2", "a": b"2"}]


def test_fields_are_lower_case_keys_are_not():
    assert group(["A.JPG"]) == [{"__key__": "A", "jpg": b"0"}]
    assert group(["A.JPG"], lcase=False) == [{"__key__": "A", "JPG": b"0"}]


def test_suffixes_keep_some_fields_and_every_sample():
    assert group(["1.a", "1.b", "2.b"], suffixes=["a"]) == [{"__key__": "1", "a": b"0"}, {"__key__": "2"}]


def test_names_that_are_no_fields():
    names = ["README", ".hidden.a", "d/._1.a", "__meta__/x.a", "__meta__", "1.a"]
    assert group(names) == [{"__key__": "1", "a": b"5"}]


def test_D10_macos_leavings_do_not_split_samples():
    assert group(["d/._1.a", "d/1.a", "d/._1.b", "d/1.b"]) == [{"__key__": "d/1", "a": b"1", "b": b"3"}]


def test_D34_stored_meta_fields_are_readable():
    names = ["1.__url__", "1.__source__", "1.a", "2.__local_path__", "2.a"]
    assert group(names) == [{"__key__": "1", "__source__": b"1", "a": b"2"}, {"__key__": "2", "a": b"4"}]


@pytest.mark.parametrize("names", [["1.__key__", "1.a"], ["1.a", "1.__key__"], ["0.a", "1.__KEY__"]])
def test_a_member_called_key_is_an_error_in_a_stream_and_by_index(names, tar, tmp_path):
    from webdataset.index import ShardReader, build_index

    with pytest.raises(DuplicateField, match="__key__"):
        group(names)
    asked = []
    kept = group(names, handler=lambda error: asked.append(type(error)) or True)
    assert (kept[-1]["__key__"], asked) == ("1", [DuplicateField])
    path = tmp_path / "a.tar"
    path.write_bytes(tar([(name, b"x") for name in names]))
    index = build_index(str(path))
    with pytest.raises(DuplicateField, match="__key__"):
        ShardReader(str(path), index).sample(len(index) - 1)


def test_stored_provenance_is_replaced_in_a_stream_and_by_index(tar, tmp_path):
    from webdataset.index import ShardReader, build_index

    path = tmp_path / "a.tar"
    path.write_bytes(tar([("1.__url__", b"old"), ("1.__local_path__", b"old"), ("1.a", b"x")]))
    own = {"__key__": "1", "__url__": str(path), "__local_path__": str(path), "a": b"x"}
    assert list(read_shard(str(path))) == [own]
    assert ShardReader(str(path), build_index(str(path))).sample(0) == own


def test_what_is_wrong_with_a_member_is_told_with_its_byte(tar):
    good = [("1.a", b""), ("2.a", b"")]
    for wrong, kind in (("2.A", DuplicateField), ("1.b", SplitSample)):
        archive = tar([*good, (wrong, b"")])
        with pytest.raises(kind) as caught:
            list(group_members(read_members(archive)))
        assert caught.value.where.offset == 1024
        with pytest.raises(kind) as caught:
            list(read_shard({"url": "a.tar", "stream": io.BytesIO(archive)}))
        assert caught.value.where.offset == 1024
        with pytest.raises(kind) as caught:
            list(read_shard({"url": "a.tar", "stream": io.BytesIO(gzip.compress(archive))}))
        assert caught.value.where.offset is None


def test_D39_duplicates_name_shard_member_key_and_field():
    with pytest.raises(DuplicateField, match="duplicate file name in tar file") as caught:
        group(["1.jpg", "1.JPG"])
    where = caught.value.where
    assert (where.shard, where.member, where.key, where.field) == ("a.tar", "1.JPG", "1", "jpg")


def test_of_duplicates_the_first_wins():
    assert group(["1.a", "1.a", "2.a"], handler=ignore_and_continue) == [
        {"__key__": "1", "a": b"0"},
        {"__key__": "2", "a": b"2"},
    ]
    assert group(["0.a", "1.a", "1.a", "2.a"], handler=ignore_and_stop) == [{"__key__": "0", "a": b"0"}]


def test_D09_interleaved_keys_are_an_error():
    with pytest.raises(
        SplitSample, match="not adjacent.*sample 1, member 1.b, a.tar, byte 1024 – .*--sort=name.*allow_split"
    ):
        group(["1.a", "2.a", "1.b", "2.b"])


def test_D09_split_samples_can_be_left_out_or_allowed():
    names = ["1.a", "2.a", "1.b", "1.c", "3.a"]
    assert [s["__key__"] for s in group(names, handler=ignore_and_continue)] == ["1", "2", "3"]
    assert [s["__key__"] for s in group(names, allow_split=True)] == ["1", "2", "1", "3"]
    assert [s["__key__"] for s in group(names, handler=ignore_and_stop)] == ["1", "2"]


def test_keys_of_ones_own():
    def by_directory(name):
        return tuple(name.split("/")) if "/" in name else (None, None)

    assert group(["1/a.x", "1/b.x", "zzz", "2/a.x"], keys=by_directory) == [
        {"__key__": "1", "a.x": b"0", "b.x": b"1"},
        {"__key__": "2", "a.x": b"3"},
    ]


def test_D25_the_handler_is_asked_once_per_failure():
    asked = []
    group(["1.a", "1.a", "2.a", "1.b"], handler=lambda error: asked.append(type(error)) or True)
    assert asked == [DuplicateField, SplitSample]


stems = st.sampled_from(["1", "2", "3", "d/1", "d.x/2", "./1", "__m__", "__m__/1", "", "d/", "_", "A", "a b"])
endings = st.sampled_from(
    ["", ".", ".jpg", ".JPG", ".seg.png", ".__key__", ".__url__", ".__x__", ".a/b.c", ".hidden", "..x"]
)
members = st.lists(st.tuples(stems, endings).map("".join).filter(bool), max_size=30)


@settings(deadline=None)
@given(
    members,
    st.booleans(),
    st.sampled_from([None, ["jpg"], ["jpg", "seg.png", ""]]),
    st.booleans(),
    st.sampled_from([ignore_and_continue, ignore_and_stop]),
    st.sampled_from([None, lambda name: (name[:1], name[1:]) if name[1:] else (None, None)]),
)
def test_both_groupers_agree(names, lcase, suffixes, allow_split, handler, keys):
    options = {"lcase": lcase, "suffixes": suffixes, "allow_split": allow_split, "handler": handler}
    if keys is not None:
        options["keys"] = keys
    found = [Member(name, n, n, b"%d" % n) for n, name in enumerate(names)]
    expected = list(group_members(found, url="a.tar", **options))
    runs = [Run(0, True, m.data, [m.name], [m.offset], [0], [m.size]) for m in found]
    assert gather(runs, **options).samples == expected
    together = b"".join(m.data for m in found)
    ends = [sum(m.size for m in found[: n + 1]) for n in range(len(found))]
    starts = [end - m.size for end, m in zip(ends, found)]
    whole = Run(0, True, together, names, [m.offset for m in found], starts, ends)
    assert gather([whole], **options).samples == expected


def test_both_ways_through_an_archive_agree(tar):
    archive = tar([(f"{n:03}.{field}", b"x" * n) for n in range(300) for field in ("jpg", "cls", "__x__")])
    expected = list(group_members(read_members(archive), url="a.tar"))
    for window in (512, 8192, 1 << 20):
        assert gather(read_runs(archive, window=window)).samples == expected
    assert len(expected) == 300


def test_offsets_are_those_of_the_first_member(tar):
    archive = tar([("skipped", b""), ("1.a", b""), ("1.b", b""), ("2.a", b"x")])
    assert gather(read_runs(archive)).offsets == [512, 1536]


def test_endings_that_never_repeat_do_not_fill_the_memory():
    gatherer = Gatherer()
    names = [f"1.{n}" for n in range(5000)]
    gatherer.feed(Run(0, True, b"", names, [0] * 5000, [0] * 5000, [0] * 5000), Gathered([], []))
    assert len(gatherer._endings) <= 1000


def test_D09_a_key_that_comes_back_much_later_is_found(tar):
    """Rising keys are only noted down; the first one that falls behind is compared with all of them."""
    rising = [(f"{n:06}.a", b"") for n in range(1000)]
    for late, known in (("000500.b", True), ("000999.b", None), ("000500x.b", False), ("000000.b", True)):
        archive = tar([*rising, (late, b"")])
        for window in (8192, 1 << 20):
            asked = []
            found = gather(read_runs(archive, window=window), handler=lambda error: asked.append(type(error)) or True)
            assert asked == ([SplitSample] if known else [])
            assert len(found.samples) == (1001 if known is False else 1000)


def test_D09_keys_in_any_order_are_found(tar):
    falling = [(f"{n:06}.a", b"") for n in range(1000, 0, -1)]
    assert len(gather(read_runs(tar(falling), window=8192)).samples) == 1000
    with pytest.raises(SplitSample, match="sample 000900"):
        gather(read_runs(tar([*falling, ("000900.b", b"")]), window=8192))
