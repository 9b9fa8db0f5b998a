import pytest

from tests.stages.contract import assert_contract, samples
from webdataset.errors import SpecError
from webdataset.handlers import ignore_and_continue
from webdataset.pipeline import WebDataset
from webdataset.stages import map_dict, rename


def test_changes_the_sample_itself():
    sample = {"__key__": "a", "cls": b"3", "left.png": 1}
    (result,) = map_dict(cls=int, **{"left.png": str})([sample])
    assert result is sample and sample == {"__key__": "a", "cls": 3, "left.png": "1"}


def test_a_failure_leaves_the_sample_as_it_was():
    sample = {"a": "1", "b": "x"}
    assert list(map_dict(a=int, b=int, handler=ignore_and_continue)([sample])) == []
    assert sample == {"a": "1", "b": "x"}


def test_D49_no_fields_fail_at_once():
    with pytest.raises(SpecError, match="no fields"):
        map_dict()
    with pytest.raises(SpecError, match="expected a function"):
        map_dict(jpg="decode")


def test_contract():
    assert_contract(samples(3), map_dict(n=str))
    assert repr(map_dict(n=str)) == "map_dict(n=str)"
    assert hash(map_dict(n=str)) == hash(map_dict(n=str))


def test_an_error_of_the_function_stays():
    with pytest.raises(KeyError, match="'inner'"):
        list(map_dict(json={}.__getitem__)([{"json": "inner"}]))


@pytest.mark.parametrize("field", ["self", "stage", "kw"])
def test_a_field_may_be_called_like_a_parameter_of_ours(field):
    assert list(map_dict(**{field: str})([{field: 1}])) == [{field: "1"}]
    assert list(rename(**{field: "a"})([{"a": 1}])) == [{field: 1}]
    assert WebDataset("a.tar").map_dict(**{field: str}).rename(**{field: "a"})
