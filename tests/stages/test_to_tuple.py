import numpy as np
import pytest

from tests.stages.contract import assert_contract, samples
from webdataset.errors import SpecError
from webdataset.stages import parse_field_spec, to_tuple

SAMPLE = {"__key__": "k", "jpg": 2, "png": 3, "cls": np.zeros(3)}


def only(stage, sample=SAMPLE):
    (result,) = stage([sample])
    return result


def test_result_is_a_tuple():
    assert only(to_tuple("jpg", "png")) == (2, 3) and type(only(to_tuple("jpg"))) is tuple


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["jpg png"], (2, 3)),
        (["gif;jpg", ["x", "png"]], (2, 3)),
        ([["jpg", "png"]], (2,)),
        (["png;jpg"], (3,)),
        (["__key__"], ("k",)),
        ([], ()),
    ],
)
def test_ways_to_name_fields(fields, expected):
    assert only(to_tuple(*fields)) == expected


def test_missing_is_a_value_error_that_names_both_sides():
    with pytest.raises(ValueError, match=r"didn't find \['gif'\] in .*'jpg'"):
        only(to_tuple("gif"))
    with pytest.raises(ValueError, match="didn't find"):
        only(to_tuple("gif", "jpg"))


def test_missing_may_be_none():
    assert only(to_tuple("gif", "jpg", missing_is_error=False)) == (None, 2)
    with pytest.raises(ValueError, match="None"):
        only(to_tuple("gif", missing_is_error=False, none_is_error=True))


def test_none_is_an_error_unless_allowed():
    with pytest.raises(ValueError, match="None"):
        only(to_tuple("a"), {"a": None})
    assert only(to_tuple("a", none_is_error=False), {"a": None}) == (None,)


def test_arrays_are_not_compared_with_none():
    assert only(to_tuple("cls", "jpg"))[1] == 2


@pytest.mark.parametrize("fields", [("gif x", "jpg"), (3,), ("a", ""), (["a", 1],), ([],)])
def test_bad_names_fail_at_once(fields):
    with pytest.raises(SpecError):
        to_tuple(*fields)


def test_contract():
    assert_contract(samples(3), to_tuple("__key__ n"))
    assert repr(to_tuple("a;b", "c", missing_is_error=False)) == "to_tuple('a;b', 'c', missing_is_error=False)"


def test_parse_field_spec():
    assert parse_field_spec("a b;c d") == [["a"], ["b", "c"], ["d"]]
    assert parse_field_spec(["a", "b;c"]) == [["a"], ["b", "c"]]


def test_a_missing_field_is_told_with_its_sample_and_nothing_before_it():
    sample = {"__key__": "0001", "__url__": "a.tar", "jpg": b""}
    with pytest.raises(SpecError, match=r"didn't find \['jpeg'\].*sample 0001, a.tar – name a field") as caught:
        list(to_tuple("jpeg")([sample]))
    assert caught.value.__context__ is None
