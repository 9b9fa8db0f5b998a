"""Two datasets compared by key."""

import random

import pytest
import resource
from pathlib import Path
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.caption_shards import write
from webdataset.tools import Change, Difference, diff
from webdataset.tools._key_table import KeyTable


def texts(differences):
    return sorted(map(str, differences))


def test_order_and_shards_make_no_difference(tmp_path):
    samples = [(f"{n}", {"txt": f"{n}", "cls": n}) for n in range(50)]
    one = [write(tmp_path / "a.tar", samples)]
    random.Random(0).shuffle(samples)
    two = [write(tmp_path / "b.tar", samples[:20]), write(tmp_path / "c.tar.gz", samples[20:])]
    assert list(diff(one, two)) == []


def test_every_kind_of_difference(tmp_path):
    one = write(tmp_path / "a.tar", [("a", {"txt": "1"}), ("b", {"txt": "1", "cls": 1}), ("c", {"txt": "x"})])
    two = write(tmp_path / "b.tar", [("b", {"txt": "2", "json": 1}), ("c", {"txt": "x"}), ("d", {"txt": "1"})])
    assert set(diff(one, two)) == {
        Difference("a", Change.ONLY_LEFT),
        Difference("d", Change.ONLY_RIGHT),
        Difference("b", Change.DIFFERENT, "txt"),
        Difference("b", Change.ONLY_LEFT, "cls"),
        Difference("b", Change.ONLY_RIGHT, "json"),
    }


def test_sizes_alone(tmp_path):
    one, two = write(tmp_path / "a.tar", [("a", {"txt": "12"})]), write(tmp_path / "b.tar", [("a", {"txt": "34"})])
    assert list(diff(one, two, sizes_only=True)) == []
    assert texts(diff(one, two)) == ["a.txt: different"]


def test_a_key_that_comes_twice_is_counted(tmp_path):
    one = write(tmp_path / "a.tar", [("a", {"txt": "1"})])
    again = write(tmp_path / "b.tar", [("a", {"txt": "1"})])
    assert texts(diff([one, again], one)) == ["a: only in the first"]
    assert texts(diff([one, again], [again, one])) == []


def test_many_samples_differ(tmp_path):
    one = write(tmp_path / "a.tar", [(f"{n}", {"txt": f"{n}"}) for n in range(300)])
    two = write(tmp_path / "b.tar", [(f"{n}", {"txt": f"{n // 299}"}) for n in range(1, 301)])
    found = texts(diff(one, two))
    assert len(found) == 2 + 299
    assert found[0] == "0: only in the first"


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4))
def test_duplicate_keys_are_found_exactly(shards):
    with KeyTable() as table:
        for number, keys in enumerate(shards):
            table.add(number, keys, [512 * row for row in range(len(keys))])
        found = sorted(table.duplicates())
    expected = []
    for number, keys in enumerate(shards):
        for row, key in enumerate(keys):
            first = next(n for n, others in enumerate(shards) if key in others)
            if first < number:
                expected.append((key, first, number, 512 * row))
    assert found == sorted(expected)


@pytest.mark.long
def test_the_memory_for_keys_is_bounded():
    """More than 20 MB of keys, in a file: few pages of it are in memory at any time, and a shard's keys."""

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    with KeyTable() as table:  # SQLite is loaded when it is first used
        table.add(0, ["a"], [0])
        assert list(table.duplicates()) == []
    before = resident()
    with KeyTable() as table:
        for shard in range(400):
            first = shard * 1000
            table.add(shard, [f"{n:012d}" for n in range(first, first + 1000)], range(1000))
        table.add(400, ["000000000007"], [0])
        assert [d.key for d in table.duplicates()] == ["000000000007"]
        assert resident() - before < 12 << 20
