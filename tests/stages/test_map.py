import pytest

from tests.stages.contract import assert_contract, samples
from webdataset.errors import SpecError
from webdataset.flow import DROP
from webdataset.stages import map, select


def number(sample):
    return {"n": sample["n"]}


def is_even(sample):
    return sample["n"] % 2 == 0


def test_none_drops():
    assert list(map(lambda n: n or None)([1, 0, 2])) == [1, 2]


def test_false_values_stay():
    assert list(map(lambda n: n)([0, "", False, ()])) == [0, "", False, ()]


def test_DROP_drops_too():
    assert list(map(lambda n: n if n else DROP)([1, 0, 2])) == [1, 2]


def test_D41_key_is_filled_in_only_when_absent_and_known():
    assert list(map(lambda s: {"n": 1})([{"__key__": "a"}])) == [{"n": 1, "__key__": "a"}]
    assert list(map(lambda s: {"__key__": "new"})([{"__key__": "a"}])) == [{"__key__": "new"}]
    assert list(map(lambda s: {"n": 1})([{"b": 2}])) == [{"n": 1}]
    assert list(map(lambda s: (1,))([{"__key__": "a"}])) == [(1,)]


def test_D41_key_survives_a_function_that_empties_its_sample():
    def empty(sample):
        sample.clear()
        return {"n": 1}

    assert list(map(empty)([{"__key__": "a"}])) == [{"n": 1, "__key__": "a"}]


def test_contract():
    assert len(assert_contract(samples(5), map(number), select(is_even))) == 3


def test_repr():
    assert repr(map(number)) == "map(f=number)"
    assert "lambda" in repr(map(lambda sample: sample))


def test_what_cannot_be_called_fails_at_once():
    with pytest.raises(SpecError, match="expected a function"):
        map("number")
    with pytest.raises(SpecError, match="expected a function"):
        select(None)
    with pytest.raises(TypeError):
        map()
