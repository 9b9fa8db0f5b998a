import pytest

from tests.stages.contract import assert_contract, samples
from webdataset.errors import SpecError
from webdataset.stages import associate

SAMPLE = {"__key__": "k", "__url__": "u", "jpg": 2, "png": 3, "cls": 4}


def test_associate():
    assert list(associate({"k": {"z": 1}})([dict(SAMPLE)])) == [{**SAMPLE, "z": 1}]
    assert list(associate({})([dict(SAMPLE)])) == [SAMPLE]
    assert list(associate(lambda key: {"kk": key})([dict(SAMPLE)])) == [{**SAMPLE, "kk": "k"}]
    assert list(associate(lambda key: None)([dict(SAMPLE)])) == [SAMPLE]
    with pytest.raises(KeyError):
        list(associate({})([{"no": "key"}]))
    with pytest.raises(SpecError, match="neither a table nor a function"):
        associate(3)


def test_associate_keeps_its_table_out_of_the_repr():
    assert repr(associate({str(n): {} for n in range(1000)})) == "associate(dict)"


def test_contract():
    assert assert_contract(samples(1), associate({"0000": {"x": 1}}))[0]["x"] == 1
