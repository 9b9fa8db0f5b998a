import pickle

import pytest

from webdataset.stages import (
    FilterFunction,
    RestCurried,
    Uncurried,
    map,
    pick,
    pipelinefilter,
    select,
    shuffle,
)


def _repeat_each(data, times, *, suffix=""):
    """Each item several times."""
    for item in data:
        yield from [item + suffix] * times


repeat_each = pipelinefilter(_repeat_each)


def test_the_rest_of_the_arguments_comes_first():
    stage = repeat_each(2, suffix="!")
    assert isinstance(repeat_each, RestCurried) and isinstance(stage, FilterFunction)
    assert list(stage("ab")) == ["a!", "a!", "b!", "b!"]


def test_str_and_repr_name_the_function():
    stage = repeat_each(2, suffix="!")
    assert str(stage) == repr(stage) == "<_repeat_each (2,) {'suffix': '!'}>"
    assert repeat_each.__doc__ == "Each item several times." and repeat_each.__name__ == "_repeat_each"


def test_a_stage_pickles():
    assert list(pickle.loads(pickle.dumps(repeat_each(2)))("a")) == ["a", "a"]


@pytest.mark.parametrize("stage", [shuffle, map, select])
def test_uncurried(stage):
    function = Uncurried(stage)
    assert function.__name__ == f"_{stage.verb}" == pickle.loads(pickle.dumps(function)).__name__


def test_uncurried_takes_positional_arguments_as_the_public_functions_do():
    import random

    _shuffle = Uncurried(shuffle)
    assert sorted(_shuffle(iter(range(9)), 5, 2, random.Random(1))) == list(range(9))
    assert list(Uncurried(map)([1, 2], str)) == ["1", "2"]
    assert list(pipelinefilter(Uncurried(map))(str)([1])) == ["1"]
    assert "_map" in str(pipelinefilter(Uncurried(map))(str))


def test_pick():
    import random

    items = list(range(10))
    picked = [pick(items, random.Random(n)) for n in range(10)]
    assert items == [] and sorted(picked) == list(range(10))
