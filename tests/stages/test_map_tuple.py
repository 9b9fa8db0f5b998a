import pytest

from tests.stages.contract import assert_contract
from webdataset.errors import SpecError
from webdataset.stages import map_tuple, transform_with


@pytest.mark.parametrize(
    ("functions", "item", "expected"),
    [
        ((str,), (1, 2, 3), ("1", 2, 3)),
        ((str, str), (1,), ("1",)),
        ((None, str), [1, 2], (1, "2")),
        ((), [1, 2], (1, 2)),
    ],
)
def test_positions(functions, item, expected):
    assert list(map_tuple(*functions)([item])) == [expected]


def test_contract():
    assert_contract([(1, 2), (3, 4)], map_tuple(str, None))
    assert repr(map_tuple(str, None)) == "map_tuple(str, None)"


def test_what_cannot_be_called_fails_at_once():
    with pytest.raises(SpecError, match="expected a function"):
        map_tuple(str, "upper")


def test_transform_with():
    assert transform_with((1, 2, 3), [str]) == ["1", 2, 3]
    assert transform_with((1, 2), []) == (1, 2)
    assert transform_with([1, 2], None) == [1, 2]
    with pytest.raises(ValueError, match="2 transformers for 1"):
        transform_with((1,), [str, str])
