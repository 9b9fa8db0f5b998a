import json

import pytest

from webdataset.errors import FormatError, SpecError, StaleIndex, UnsafeContent
from webdataset.index import Description, ShardEntry, read_description, write_description

ONE = {
    "wids_version": 1,
    "shardlist": [
        {"url": "a.tar", "nsamples": 3},
        {"url": "s3://b/c.tar", "nsamples": 4, "filesize": 99, "md5sum": "0" * 32},
    ],
}


def test_read_from_a_file_relative_to_it(tmp_path):
    (tmp_path / "d.json").write_text(json.dumps(ONE))
    for name in (tmp_path / "d.json", str(tmp_path / "d.json")):
        description = read_description(name)
        assert description.urls == [f"{tmp_path}/a.tar", "s3://b/c.tar"]
        assert description.counts == [3, 4] and description.nsamples == 7
        assert description.shards[1].filesize == 99 and description.shards[1].md5sum == "0" * 32
    assert read_description(tmp_path / "d.json", base="https://h/x/").urls[0] == "https://h/x/a.tar"


def test_addresses():
    def merged(url, base):
        return read_description({"wids_version": 1, "shardlist": [{"url": url, "nsamples": 1}]}, base=base).urls[0]

    assert merged("x/a.tar", "dir") == "dir/x/a.tar" and merged("a.tar", None) == "a.tar"
    assert merged("/abs/a.tar", "https://h/x") == "https://h/abs/a.tar" and merged("/abs/a.tar", "dir") == "/abs/a.tar"
    assert merged("../a.tar", "https://h/x/y") == "https://h/x/a.tar"
    assert merged("gs://b/a.tar", "dir") == "gs://b/a.tar"


def test_parts_and_other_descriptions(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "o.json").write_text(json.dumps({**ONE, "name": "other"}))
    whole = {
        "wids_version": 1,
        "datasets": [
            {"source_url": "sub/o.json", "weight": 2},
            {"name": "here", "base": "gs://q", "shardlist": [{"url": "z.tar", "nsamples": 9}]},
        ],
    }
    (tmp_path / "w.json").write_text(json.dumps(whole))
    description = read_description(str(tmp_path / "w.json"))
    assert description.urls == [f"{tmp_path}/sub/a.tar", "s3://b/c.tar", "gs://q/z.tar"]
    assert [(s.dataset, s.weight) for s in description.shards] == [("other", 2), ("other", 2), ("here", None)]


def test_one_level_of_parts_only(tmp_path):
    (tmp_path / "w.json").write_text(json.dumps({"wids_version": 1, "datasets": [{"source_url": "w.json"}]}))
    with pytest.raises(FormatError, match="one level"):
        read_description(str(tmp_path / "w.json"))


def test_written_and_read_again():
    description = Description(
        [ShardEntry("a.tar", 3, filesize=10240, md5sum="d41d" * 8), ShardEntry("b.tar", 0)],
        name="train",
        info="hello",
        extra={"mine": [1]},
    )
    content = json.loads(write_description(description))
    assert content["__kind__"] == "wids-shard-index-v1" and content["wids_version"] == 1 and content["mine"] == [1]
    assert content["shardlist"][1] == {"url": "b.tar", "nsamples": 0}
    assert read_description(content) == description


@pytest.mark.parametrize("wrong", [
    [], {}, {"wids_version": 2, "shardlist": []}, {"wids_version": 1, "shardlist": "a.tar"}, {"wids_version": 1, "shardlist": ["a.tar"]},
    {"wids_version": 1, "shardlist": [{"url": "a.tar"}]}, {"wids_version": 1, "shardlist": [{"nsamples": 3}]},
    {"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": -1}]}, {"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": "3"}]},
    {"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": True}]}, {"wids_version": 1, "datasets": [3]},
    {"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 1, "filesize": -5}]},
])  # fmt: skip
def test_damaged_descriptions_are_typed_errors(wrong, tmp_path):
    (tmp_path / "d.json").write_text(json.dumps(wrong))
    with pytest.raises(FormatError):
        read_description(str(tmp_path / "d.json"))
    (tmp_path / "d.json").write_text(json.dumps(wrong)[:-1])
    with pytest.raises(FormatError, match="not JSON"):
        read_description(str(tmp_path / "d.json"))


def test_a_description_without_shards():
    with pytest.raises(SpecError):
        read_description({"wids_version": 1, "shardlist": []})


def test_commands_in_descriptions_are_refused():
    for content in ({"shardlist": [{"url": "pipe:rm x", "nsamples": 1}]}, {"datasets": [{"source_url": "pipe:rm x"}]}):
        with pytest.raises(UnsafeContent, match="pipe:rm x"):
            read_description({"wids_version": 1, **content})


def test_a_shard_of_another_size_is_noticed():
    entry = ShardEntry("a.tar", 1, filesize=10)
    entry.check(10)
    entry.check(None)
    ShardEntry("a.tar", 1).check(7)
    with pytest.raises(StaleIndex):
        entry.check(11)
