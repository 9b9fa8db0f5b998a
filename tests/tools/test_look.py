"""Looking at datasets: ls, show, get, first, grep, stats, rows."""

import numpy as np
import pytest

from tests.tools.caption_shards import captions, picture, write
from webdataset.errors import FormatError, SpecError
from webdataset.index import index_shards
from webdataset.testing import FaultServer
from webdataset.tools import (
    Distribution,
    dataset_stats,
    field_rows,
    first_field,
    get_field,
    grep,
    list_samples,
    show_samples,
)


@pytest.fixture
def shards(tmp_path):
    return captions(tmp_path)


def plain(listed):
    return [(each.key, each.fields) for each in listed]


def test_ls_is_the_same_from_headers_from_an_index_and_from_a_stream(shards, tmp_path):
    expected = plain(list_samples(shards))
    assert len(expected) == 30
    assert expected[7] == ("0007", {"cls": 1, "json": 13, "txt": 25})
    assert plain(list_samples([f"pipe:cat {shard}" for shard in shards])) == expected
    index_shards(shards)
    assert plain(list_samples(shards)) == expected


def test_ls_of_a_remote_shard_with_an_index_reads_the_index_alone(tmp_path):
    shard = write(tmp_path / "a.tar", [(f"{n}", {"bin": bytes(10_000)}) for n in range(50)], index=True)
    with FaultServer() as server:
        url = server.add("a.tar", (tmp_path / "a.tar").read_bytes())
        server.add("a.idx", (tmp_path / "a.idx").read_bytes())
        assert plain(list_samples(url)) == plain(list_samples(shard))
        assert server.sent("a.tar") == 0


def test_ls_says_where_samples_are(shards):
    listed = list(list_samples(shards))[12]
    assert (listed.shard, listed.number, listed.size) == (shards[1], 2, sum(listed.fields.values()))
    with open(listed.shard, "rb") as file:
        file.seek(listed.offset)
        assert file.read(2) == b"12"


def test_show(tmp_path):
    fields = {"jpg": picture(20, 40), "npy": np.zeros((3, 4)), "txt": "hello", "bin": b"\x00\xff" * 20}
    shard = write(tmp_path / "a.tar", [("a", fields), ("b", {"png": b"<html>"})])
    (shown,) = show_samples(shard, width=10)
    found = {field.name: field for field in shown.fields}
    assert found["jpg"].text == "picture of 40 x 20"
    assert found["jpg"].picture.shape == (5, 10, 3)
    assert found["npy"].text == "array of (3, 4) float64"
    assert found["txt"].text == "hello"
    assert found["bin"].text == "00 ff 00 ff 00 ff 00 ff 00 ff 00 ff 00 ff 00 ff …"
    (broken,) = show_samples(shard, keys=["b"])
    assert broken.fields[0].picture is None
    assert "cannot decode" in broken.fields[0].text
    assert [s.key for s in show_samples(shard, count=None)] == ["a", "b"]
    assert [f.name for f in next(show_samples(shard, fields=["txt"])).fields] == ["txt"]


def test_a_small_picture_keeps_its_colours(tmp_path):
    pixels = np.zeros((6, 6, 3), np.uint8)
    pixels[:3], pixels[3:] = (255, 0, 0), (0, 0, 255)
    shard = write(tmp_path / "a.tar", [("a", {"png": pixels})])
    small = next(show_samples(shard, width=2)).fields[0].picture
    assert small.tolist() == [[[255, 0, 0]] * 2, [[0, 0, 255]] * 2]


def test_get_reads_the_field_alone(tmp_path):
    shard = write(tmp_path / "a.tar", [(f"{n}", {"bin": bytes(50_000), "cls": n}) for n in range(50)], index=True)
    assert get_field(shard, "17", "cls").data == b"17"
    with FaultServer() as server:
        url = server.add("a.tar", (tmp_path / "a.tar").read_bytes())
        server.add("a.idx", (tmp_path / "a.idx").read_bytes())
        assert get_field(url, "33", "cls").data == b"33"
        assert server.sent("a.tar") < 20_000


def test_get_from_a_stream(shards):
    assert get_field(f"pipe:cat {shards[1]}", "0013", "cls").data == b"13"


@pytest.mark.filterwarnings("ignore:fields=")
@pytest.mark.parametrize("spec", ["{}", "pipe:cat {}"])
def test_get_of_what_is_not_there(shards, spec):
    with pytest.raises(SpecError, match="no sample has the key 'x'"):
        get_field(spec.format(shards[0]), "x", "cls")
    with pytest.raises(SpecError, match="has no field 'jpg'"):
        get_field(spec.format(shards[0]), "0001", "jpg")


def test_first(shards):
    got = first_field(shards, ["jpg", "txt"], where="cls == 15")
    assert (got.key, got.field, got.shard) == ("0015", "txt", shards[1])
    with pytest.raises(SpecError, match="no sample for which cls > 99 is true has one of the fields txt"):
        first_field(shards, ["txt"], where="cls > 99")


def test_grep(shards):
    assert [m.key for m in grep("Cat", shards)] == [f"{n:04d}" for n in range(0, 30, 3)]
    (match,) = grep(r"number 17$", shards)
    assert (match.key, match.field, match.line, match.text) == ("0017", "txt", 2, "number 17")
    assert len(list(grep("cat", shards, ignore_case=True))) == 10
    assert [m.key for m in grep("170", shards, fields=["json"])] == ["0017"]
    assert [m.key for m in grep(".", shards, fixed=True)] == []
    assert [m.key for m in grep("0*7", shards, in_keys=True)] == ["0007", "0017", "0027"]
    with pytest.raises(SpecError, match="not a regular expression"):
        list(grep("(", shards))


def test_stats(shards):
    stats = dataset_stats(shards)
    assert (stats.shards, stats.samples.count) == (3, 30)
    assert stats.fields["cls"].total == 10 + 2 * 20
    assert stats.per_shard.smallest == stats.per_shard.largest == 10
    assert stats.field_sets == {"cls json txt": 30}
    assert stats.samples.total == sum(listed.size for listed in list_samples(shards))


def test_a_histogram_counts_everything_once():
    sizes = Distribution()
    numbers = [0, 0, 1, 2, 3, 4, 1000, 1023, 1024]
    for number in numbers:
        sizes.add(number)
    bins = sizes.histogram()
    assert sum(count for _, _, count in bins) == len(numbers)
    for low, high, count in bins:
        assert count == sum(low <= number <= high for number in numbers)


def test_rows(shards, tmp_path):
    rows = list(field_rows(shards, ["cls", "caption;txt"], count=2))
    assert rows == [
        {"__key__": "0000", "cls": 0, "txt": "a photo of a Cat\nnumber 0"},
        {"__key__": "0001", "cls": 1, "txt": "a photo of a dog\nnumber 1"},
    ]
    with pytest.raises(FormatError, match="no field 'jpg'"):
        list(field_rows(shards, ["jpg"]))
    bad = write(tmp_path / "bad.tar", [("a", {"json": b"{"})], encoder=False)
    with pytest.raises(FormatError, match="cannot be decoded"):
        list(field_rows(bad))
