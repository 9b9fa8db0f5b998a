"""Step by step, or in one go: the same samples, and the same answers to what goes wrong."""

import io
import tarfile
import warnings

import pytest

import webdataset as wds
from webdataset import tariterators
from webdataset.samples import ReadSamples


def archive(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture
def shards(tmp_path):
    (tmp_path / "0.tar").write_bytes(archive(("a.txt", b"0"), ("a.cls", b"1"), ("b.txt", b"2"), ("__meta__/x.y", b"3")))
    (tmp_path / "1.tar").write_bytes(archive(("b.cls", b"4"), ("c.TXT", b"5"), ("readme", b"6")))
    return [{"url": str(tmp_path / f"{number}.tar")} for number in range(2)]


def step_by_step(shards, handler=wds.reraise_exception, **choice):
    streams = tariterators.url_opener((dict(shard) for shard in shards), handler=handler)
    files = tariterators.tar_file_expander(streams, handler=handler, **choice)
    return tariterators.group_by_keys(files, handler=handler)


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"select_files": lambda name: not name.endswith("cls")},
        {"rename_files": lambda name: name.replace(".cls", ".label")},
        {"rename_files": str.lower, "select_files": "*.txt"},
    ],
    ids=["all", "select", "rename", "both"],
)
def test_the_steps_give_what_the_reader_gives(shards, choice):
    assert list(step_by_step(shards, **choice)) == list(ReadSamples(**choice)(iter(shards)))


def test_equal_keys_of_neighbouring_shards_stay_apart(shards):
    assert [sample["__key__"] for sample in step_by_step(shards)] == ["a", "b", "b", "c"]


def cut(shards, tmp_path, size):
    (tmp_path / "cut.tar").write_bytes((tmp_path / "0.tar").read_bytes()[:size])
    return [{"url": str(tmp_path / "cut.tar")}, shards[1]]


BEHIND_B = 3 * 1024 + 100  # a.txt, a.cls, b.txt, and a piece of the next header


def fields(sample):
    return sample["__key__"], sorted(name for name in sample if not name.startswith("__"))


@pytest.mark.parametrize("read", [step_by_step, lambda shards, handler: ReadSamples(handler=handler)(iter(shards))])
def test_D01_D02_what_a_broken_shard_leaves_unfinished_is_dropped_and_joins_nothing(shards, tmp_path, read):
    """b.txt of the broken shard must neither be a sample nor become part of the next shard's b."""
    samples = list(read(cut(shards, tmp_path, BEHIND_B), handler=wds.ignore_and_continue))
    assert [fields(sample) for sample in samples] == [("a", ["cls", "txt"]), ("b", ["cls"]), ("c", ["txt"])]


@pytest.mark.parametrize("answer", ["continue", "stop"])
def test_D25_the_handler_is_asked_once_and_its_answer_counts(shards, tmp_path, answer):
    asked = []

    def handler(error):
        asked.append(error)
        return answer == "continue"

    samples = list(step_by_step(cut(shards, tmp_path, BEHIND_B), handler=handler))
    assert len(asked) == 1
    assert "cut.tar" in str(asked[0])
    assert ("c" in [sample["__key__"] for sample in samples]) == (answer == "continue")


def test_a_shard_that_cannot_be_opened_is_the_handler_s(shards, tmp_path):
    missing = [{"url": str(tmp_path / "missing.tar")}, shards[1]]
    with pytest.raises(FileNotFoundError):
        list(step_by_step(missing))
    assert [s["__key__"] for s in step_by_step(missing, handler=wds.ignore_and_continue)] == ["b", "c"]
    assert list(step_by_step(missing, handler=wds.ignore_and_stop)) == []


def test_a_duplicate_ends_the_stream_or_not(tmp_path):
    (tmp_path / "d.tar").write_bytes(archive(("a.txt", b"1"), ("a.txt", b"2"), ("b.txt", b"3")))
    shards = [{"url": str(tmp_path / "d.tar")}]
    with pytest.raises(wds.DuplicateField, match=r"d\.tar"):
        list(step_by_step(shards))
    assert [s["txt"] for s in step_by_step(shards, handler=wds.ignore_and_continue)] == [b"1", b"3"]
    assert list(step_by_step(shards, handler=wds.ignore_and_stop)) == []


def test_files_without_marks_are_told_apart_by_their_shard():
    """Expanders of older programs set no marks; the address changes all the same."""
    files = [
        {"fname": "k.a", "data": b"1", "__url__": "x"},
        {"fname": "k.b", "data": b"2", "__url__": "y"},
    ]
    assert len(list(tariterators.group_by_keys(files))) == 2


def test_D16_streams_are_closed_behind_the_last_file(shards):
    opened = list(tariterators.url_opener(dict(shard) for shard in shards))
    assert len(list(tariterators.tar_file_expander(iter(opened)))) == 8
    assert all(shard["stream"].closed for shard in opened)


def test_D16_an_iteration_that_is_left_early_closes_its_stream(shards):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samples = step_by_step(shards)
        next(samples)
        samples.close()


def test_tarfile_samples_is_a_stage_as_it_is(shards):
    dataset = wds.DataPipeline(wds.SimpleShardList([shard["url"] for shard in shards]), wds.tarfile_samples)
    assert len(list(dataset)) == 4


def test_the_fast_way_is_taken_while_nothing_is_replaced(monkeypatch):
    assert isinstance(tariterators.tarfile_to_samples(), ReadSamples)
    monkeypatch.setattr(tariterators, "group_by_keys", lambda files, handler: iter(["mine"]))
    stage = tariterators.tarfile_to_samples()
    assert not isinstance(stage, ReadSamples)
    assert list(stage(iter([]))) == ["mine"]
    assert list(tariterators.tarfile_samples(iter([]))) == ["mine"]


def test_members_for_the_archive_itself_are_left_out_unless_asked_for(shards, tmp_path):
    data = (tmp_path / "0.tar").read_bytes()
    names = [file["fname"] for file in tariterators.tar_file_iterator(io.BytesIO(data))]
    assert "__meta__/x.y" not in names
    names = [file["fname"] for file in tariterators.tar_file_iterator(io.BytesIO(data), skip_meta=None)]
    assert "__meta__/x.y" in names


def test_shards_in_random_order_are_the_same_shards():
    shuffled = list(tariterators.shardlist("{0..9}.tar", shuffle=True))
    assert sorted(shard["url"] for shard in shuffled) == [f"{n}.tar" for n in range(10)]


def test_shards_may_be_plain_addresses(shards):
    opened = list(tariterators.url_opener(shard["url"] for shard in shards))
    assert [shard["url"] for shard in opened] == [shard["url"] for shard in shards]
    assert list(tariterators.group_by_keys(tariterators.tar_file_expander(opened))) == list(step_by_step(shards))
