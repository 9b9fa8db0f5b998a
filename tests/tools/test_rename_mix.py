"""`wds rename` and `wds mix`: what goes in comes out, in the promised order, or an error."""

from collections import Counter

import pytest

from tests.tools.datasets import keys, read, write_shard
from webdataset import tools
from webdataset.errors import (
    EncodingError,
    FormatError,
    SpecError,
)
from webdataset.tools import MixSource, Options


def test_rename(shards):
    tools.rename(shards, "out/", fields={"label": "cls", "text": "caption,txt"}, drop=["json"], key=("^0*", "x"))
    assert read("out/train-0.tar")["x3"] == {"label": b"3", "text": b"3"}


def test_rename_does_not_overwrite(shards):
    with pytest.raises(FormatError, match="already"):
        tools.rename(shards, "out.tar", fields={"txt": "cls"})
    tools.rename(shards, "out.tar", fields={"txt": "cls", "cls": "txt"})
    assert read("out.tar")["000007"]["cls"] == b"7"
    with pytest.raises(SpecError, match="replaced"):
        tools.rename(shards, "out2.tar", key=("(", ""))


def test_rekey_must_keep_keys_apart(shards):
    with pytest.raises(EncodingError, match="already"):
        tools.rename(shards, "out.tar", key=(".$", ""))


@pytest.fixture
def two(here):
    a = write_shard("a.tar", [{"__key__": f"a{n}", "cls": n} for n in range(6)])
    b = write_shard("b.tar", [{"__key__": f"b{n}", "cls": n} for n in range(20)])
    return a, b


def test_mix(two):
    a, b = two
    tools.mix([MixSource(a, 1), MixSource(b, 2)], "m.tar")
    count = Counter(key[0] for key in keys("m.tar"))
    assert count["a"] == 6
    assert 12 <= count["b"] <= 13
    tools.mix([MixSource(a, 1), MixSource(b, 2)], "all.tar", stop="all")
    assert sorted(keys("all.tar")) == sorted(keys(a, b))
    tools.mix([MixSource(a, 1), MixSource(b, 1)], "never.tar", stop="never", samples=50, rekey="{:03d}")
    assert len(keys("never.tar")) == 50
    tools.mix([MixSource(a), MixSource(b)], "r.tar", Options(seed=1), stop="all", random=True)
    assert sorted(keys("r.tar")) == sorted(keys(a, b))
    with pytest.raises(SpecError, match="number of samples"):
        tools.mix([MixSource(a)], "x.tar", stop="never")
