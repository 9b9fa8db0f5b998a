import pytest

from webdataset.errors import SpecError
from webdataset.samples import choose, read_shard


def test_names_are_renamed_before_they_are_selected():
    choice = choose(lambda name: name == "new.txt", lambda name: name.replace("old", "new"))
    assert choice("old.txt") == "new.txt"
    assert choice("other.txt") is None


def test_meta_names_are_told_by_the_stored_name():
    assert choose(rename_files=lambda name: "a.txt")("__meta__/x.json") is None
    assert choose(rename_files=lambda name: "__meta__/x.json")("a.txt") == "__meta__/x.json"


@pytest.mark.parametrize("patterns", ["*.{jpg,cls}", ["*.jpg", "*.cls"], ("*.jpg", "*.cls"), {"*.jpg", "*.cls"}])
def test_D60_globs(patterns):
    choice = choose(patterns)
    assert [name for name in ("d/1.jpg", "1.cls", "1.json", "1.jpg.txt") if choice(name)] == ["d/1.jpg", "1.cls"]


def test_no_pattern_selects_nothing():
    assert choose([])("a.jpg") is None


@pytest.mark.parametrize("wrong", [3, [3], b"*.jpg", 1.5])
def test_what_selects_nothing_is_refused(wrong):
    with pytest.raises(SpecError, match="glob patterns"):
        choose(wrong)


def test_in_a_shard(shard):
    path = shard([("1.A.txt", b"a"), ("1.B.txt", b"b"), ("2.A.txt", b"c")])
    samples = list(read_shard(path, select_files="*.a.txt", rename_files=str.lower))
    assert [(sample["__key__"], sample["a.txt"]) for sample in samples] == [("1", b"a"), ("2", b"c")]
