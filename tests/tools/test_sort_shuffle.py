"""`wds sort` and `wds shuffle`: what goes in comes out, in the promised order, or an error."""

import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tools.datasets import keys, write_shard
from webdataset import tools
from webdataset.errors import (
    FormatError,
    SpecError,
)
from webdataset.tools import Options


ALL = [f"{n:06d}" for n in range(21)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.integers(0, 9), min_size=1, max_size=60), memory=st.integers(1, 20_000), reverse=st.booleans()
)
def test_sort_agrees_with_sorted_for_any_memory(tmp_path, values, memory, reverse):
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    url = write_shard(folder / "a.tar", [{"__key__": f"{n:03d}", "cls": v} for n, v in enumerate(values)])
    tools.sort(url, f"{folder}/b.tar", by="cls", memory=memory, reverse=reverse)
    expected = sorted(enumerate(values), key=lambda pair: pair[1], reverse=reverse)
    assert keys(f"{folder}/b.tar") == [f"{n:03d}" for n, _ in expected]


def test_sort_merges_more_runs_than_it_opens_at_a_time(here):
    order = list(range(500))
    random.Random(0).shuffle(order)
    url = write_shard("a.tar", [{"__key__": f"{n:04d}", "cls": n} for n in order])
    tools.sort(url, "b.tar", by="cls", memory=1)  # every sample is a run of its own
    assert keys("b.tar") == [f"{n:04d}" for n in range(500)]


def test_sort_by_type(here):
    url = write_shard("a.tar", [{"__key__": str(n), "txt": t} for n, t in enumerate(["10", "9", "100"])])
    tools.sort(url, "text.tar", by="txt")
    tools.sort(url, "number.tar", by="int(txt)")
    assert keys("text.tar") == ["0", "2", "1"]
    assert keys("number.tar") == ["1", "0", "2"]


def test_sort_with_missing_values(here):
    url = write_shard("a.tar", [{"__key__": "a", "txt": "1"}, {"__key__": "b", "cls": 1}, {"__key__": "c", "cls": 0}])
    with pytest.raises(FormatError, match="'cls'.*sample a"):
        tools.sort(url, "b.tar", by="cls")
    for missing, reverse, expected in [
        ("first", False, "acb"), ("last", False, "cba"), ("first", True, "abc"), ("last", True, "bca"),
    ]:  # fmt: skip
        tools.sort(url, "b.tar", Options(force=True), by="cls", missing=missing, reverse=reverse)
        assert "".join(keys("b.tar")) == expected


def test_sort_of_different_kinds(here):
    url = write_shard("a.tar", [{"__key__": "a", "json": {"x": 1}}, {"__key__": "b", "json": {"x": "1"}}])
    with pytest.raises(SpecError, match="different kinds"):
        tools.sort(url, "b.tar", by="json.x")


def test_sort_shard_by_shard(here):
    url = write_shard("a.tar", [{"__key__": str(n), "cls": -n} for n in range(5)])
    other = write_shard("b.tar", [{"__key__": str(n), "cls": n} for n in range(5)])
    tools.sort([url, other], "out/", by="cls")
    assert keys("out/a.tar") == list("43210")
    assert keys("out/b.tar") == list("01234")


def test_temporary_files_are_removed(shards, here):
    (here / "tmp").mkdir()
    tools.sort(shards, "b.tar", by="cls", memory=1, folder="tmp")
    with pytest.raises(FormatError):
        tools.sort(shards, "c.tar", by="nothing", memory=1, folder="tmp")
    assert list((here / "tmp").iterdir()) == []


def test_shuffle_is_a_permutation_for_any_memory(shards):
    orders = []
    for number, memory in enumerate((1, 5000, 10**9)):
        tools.shuffle(shards, f"{number}.tar", Options(seed=3), memory=memory)
        orders.append(keys(f"{number}.tar"))
    assert orders[0] == orders[1] == orders[2] != ALL
    assert sorted(orders[0]) == ALL
    tools.shuffle(shards, "other.tar", Options(seed=4))
    assert keys("other.tar") != orders[0]


def test_shuffle_is_uniform():
    """Every order of three samples in 1,200 seeds: 200 each, within five standard deviations."""
    from webdataset.tools._sort import shuffle_samples

    samples = [{"__key__": key} for key in "abc"]
    seen = Counter("".join(s["__key__"] for s in shuffle_samples(iter(samples), seed=seed)) for seed in range(1200))
    assert len(seen) == 6
    assert all(abs(count - 200) < 5 * 12.9 for count in seen.values())
