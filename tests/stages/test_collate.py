import numpy as np
import pytest
import torch

from tests.stages.contract import same
from webdataset.errors import CollationError
from webdataset.stages import (
    combine_values,
    default_collation_fn,
    dict2tuple,
    tuple2dict,
)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([1, 2], np.array([1, 2])),
        ([True, False], np.array([True, False])),
        ([True, 2.5], np.array([1.0, 2.5])),
        ([1, None], np.array([1, None])),
        ([np.float64(1)], np.array([1.0])),
        ([np.float32(1)], [np.float32(1)]),
        ([np.int64(1)], [np.int64(1)]),
        (["a", "b"], ["a", "b"]),
        ([b"a"], [b"a"]),
        ([None, 1], [None, 1]),
        ([{"a": 1}], [{"a": 1}]),
        ([[1], [2]], [[1], [2]]),
        ([np.zeros(2), np.ones(2)], np.array([[0.0, 0], [1, 1]])),
        ([np.array(3), np.array(4)], np.array([3, 4])),
        ([np.zeros(2, "f4"), np.zeros(2, "f8")], np.zeros((2, 2), "f8")),
        ([np.array(["ab"]), np.array(["abcd"])], np.array([["ab"], ["abcd"]])),
        ([np.zeros((0, 3))], np.zeros((1, 0, 3))),
    ],
)
def test_the_first_value_decides_as_in_the_public_library(column, expected):
    assert same(combine_values(column), expected)


def test_tensors_are_stacked():
    stacked = combine_values([torch.zeros(2), torch.ones(2)])
    assert isinstance(stacked, torch.Tensor) and stacked.tolist() == [[0, 0], [1, 1]]


def test_combining_can_be_switched_off():
    assert same(combine_values([1, 2], combine_scalars=False), [1, 2])
    assert same(combine_values([np.zeros(2)], combine_tensors=False), [np.zeros(2)])
    columns = default_collation_fn([(1, np.zeros(2))], combine_tensors=False, combine_scalars=False)
    assert same(columns, ([1], [np.zeros(2)]))


def test_stacking_copies_once_and_keeps_nothing_of_its_input():
    arrays = [np.zeros(3), np.zeros(3)]
    stacked = combine_values(arrays)
    arrays[0][:] = 9
    assert stacked.sum() == 0 and stacked.flags.owndata and stacked.flags.c_contiguous


def test_rows_and_dicts():
    assert same(default_collation_fn([[1, "a"], [2, "b"]]), (np.array([1, 2]), ["a", "b"]))
    assert same(default_collation_fn([{"b": 1}, {"b": 2}]), {"b": np.array([1, 2])})


def test_dict_columns_stay_lists_unless_asked():
    nested = [{"m": {"x": 1, "y": {"z": "a"}}}, {"m": {"x": 2, "y": {"z": "b"}}}]
    assert default_collation_fn(nested)["m"] == [one["m"] for one in nested]
    assert same(default_collation_fn(nested, nested=True), {"m": {"x": np.array([1, 2]), "y": {"z": ["a", "b"]}}})


def test_different_shapes_name_field_shapes_and_samples():
    batch = [{"__key__": str(n), "img": np.zeros((2, n))} for n in (3, 3, 4)]
    with pytest.raises(CollationError) as caught:
        default_collation_fn(batch)
    message = str(caught.value)
    assert "(2, 3)" in message and "(2, 4)" in message and "field img" in message
    assert "samples 3, 4" in message and "padded_collation" in message


def test_different_shapes_of_tuples_and_tensors():
    with pytest.raises(CollationError, match="field 1"):
        default_collation_fn([(1, torch.zeros(2)), (1, torch.zeros(3))])
    with pytest.raises(CollationError, match=r"\(2,\), int"):
        default_collation_fn([(np.zeros(2),), (3,)])


@pytest.mark.parametrize(
    "batch",
    [
        [{"a": 1}, {"b": 1}],
        [{"a": 1}, {"a": 1, "b": 2}],
        [{"a": 1}, (1,)],
        [(1,), (1, 2)],
        [(1,), {"a": 1}],
        [3, 4],
        ["ab", "cd"],
        [],
    ],
)
def test_D49_samples_that_do_not_go_together(batch):
    with pytest.raises(CollationError):
        default_collation_fn(batch)


def test_different_fields_are_named():
    with pytest.raises(CollationError, match=r"missing \['png'\], extra \['jpg'\].*sample b"):
        default_collation_fn([{"__key__": "a", "png": 1}, {"__key__": "b", "jpg": 1}])


def test_tuple2dict_and_back():
    assert tuple2dict((1, 2)) == {0: 1, 1: 2} == tuple2dict([1, 2])
    assert tuple2dict({"a": 1}) == {"a": 1}
    assert dict2tuple({1: 1, 0: 2}) == (2, 1)


def test_tensors_of_every_kind_are_stacked_as_torch_does():
    import torch

    columns = {
        "plain": [torch.arange(6.0).reshape(2, 3) + n for n in range(3)],
        "numbers": [torch.tensor(n) for n in range(3)],
        "bfloat16": [torch.ones(2, dtype=torch.bfloat16) * n for n in range(3)],
        "with a gradient": [torch.ones(2, requires_grad=True) for _ in range(2)],
        "two types": [torch.ones(2, dtype=torch.int64), torch.ones(2)],
        "empty": [torch.empty(0, 3)] * 2,
        "planes of a transposed image": [torch.arange(24).reshape(2, 4, 3).permute(2, 0, 1)] * 2,
    }
    for name, column in columns.items():
        made, expected = default_collation_fn([(each,) for each in column])[0], torch.stack(column)
        assert made.dtype == expected.dtype, name
        assert torch.equal(made, expected), name
        assert made.requires_grad == expected.requires_grad, name
