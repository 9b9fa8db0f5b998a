"""`wds select` and `wds partition`: what goes in comes out, in the promised order, or an error."""

import numpy as np
import pytest

from tests.tools.datasets import keys, write_numbers
from webdataset import tools
from webdataset.errors import (
    SpecError,
)
from webdataset.index import read_description
from webdataset.tools import Options, Parts


ALL = [f"{n:06d}" for n in range(21)]


def test_select(shards, here):
    (here / "keys.txt").write_text("# two\n000003\n\n000010\n")
    for options, expected in [
        ({"where": "json.n % 2 == 0"}, ALL[::2]),
        ({"where": "json.n % 2 == 0", "invert": True}, ALL[1::2]),
        ({"keys": "keys.txt"}, ["000003", "000010"]),
        ({"keys": ["000003"]}, ["000003"]),
        ({"fields": ["cls"]}, ALL),
        ({"fields": ["jpg"]}, []),
        ({"fields": ["cls"], "where": "cls == 1"}, ["000001", "000006", "000011", "000016"]),
    ]:
        tools.select(shards, "out.tar", Options(force=True), **options)
        assert keys("out.tar") == expected


def test_select_reports_keys_that_were_not_found(shards):
    report = tools.select(shards, "out.tar", keys=["000001", "nothing"])
    assert "1 of 2" in report.failed[0].error
    assert tools.select(shards, "b.tar", keys=["nothing"], allow_missing=True).complete


def test_select_needs_a_criterion(shards):
    with pytest.raises(SpecError, match="no condition is given for the samples"):
        tools.select(shards, "out.tar")


def test_shares_depend_on_key_and_seed_alone(shards, here):
    tools.select(shards, "a.tar", share=0.5)
    tools.select(list(reversed(shards)), "b.tar", share=0.5)
    tools.select(shards, "c.tar", Options(seed=1), share=0.5)
    assert sorted(keys("b.tar")) == keys("a.tar") != keys("c.tar")


def test_partition(shards, here):
    (here / "val.txt").write_text("000004\n")
    parts = Parts(tools.read_lists({"val": "val.txt"}), {"odd": "json.n % 2"}, {"train": 1.0})
    reports = tools.partition(shards, "{part}/{part}-%d.tar", parts, Options(count=4))
    assert keys("val/val-0.tar") == ["000004"]
    odd = [key for url in reports["odd"].outputs for key in keys(url)]
    train = [key for url in reports["train"].outputs for key in keys(url)]
    assert odd == ALL[1::2]
    assert train == [key for key in ALL[::2] if key != "000004"]
    assert read_description("train/train.json").nsamples == len(train)


def test_partition_shares_are_about_right(here):
    urls = write_numbers("big", shards=1, each=4000)
    reports = tools.partition(urls, "{part}-%d.tar", Parts(shares={"a": 0.7, "b": 0.2, "c": 0.1}))
    sizes = [reports[part].samples_out for part in "abc"]
    assert sum(sizes) == 4000
    assert np.abs(np.array(sizes) / 4000 - [0.7, 0.2, 0.1]).max() < 0.03  # the seed is fixed, so is this


@pytest.mark.parametrize("shares", [{}, {"a": 0.9, "b": 0.2}, {"a": -0.1, "b": 1}, {"a/b": 1}])
def test_bad_parts(shares):
    with pytest.raises(SpecError):
        Parts(shares=shares)


def test_a_key_in_two_lists_is_an_error(here):
    (here / "a").write_text("1\n")
    with pytest.raises(SpecError, match="'1'"):
        tools.read_lists({"x": "a", "y": "a"})
