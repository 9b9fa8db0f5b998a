"""The walk that pinning and devices share."""

from collections import namedtuple

import numpy as np
import pytest
import torch

from webdataset.errors import StageError
from webdataset.loader._pin_memory import each_tensor

Pair = namedtuple("Pair", "image label")


def same(tensor):
    return tensor


def test_numbers_become_tensors_wherever_they_are_and_nothing_else_changes():
    value = {
        "__key__": ["a", "b"],
        "pair": Pair(np.arange(3), [np.ones(2, bool), "x", None]),
        "tuple": (torch.ones(1), b"bytes", 7),
        "text": np.array(["a", "b"]),
        "objects": np.array([None, {}], object),
        "complex": np.ones(2, np.complex64),
    }
    found = each_tensor(value, lambda tensor: ("changed", tensor))
    assert list(found) == list(value)
    assert found["__key__"] == ["a", "b"] and type(found["pair"]) is Pair
    assert found["pair"].image[0] == "changed" and found["pair"].image[1].tolist() == [0, 1, 2]
    assert found["pair"].label[0][1].dtype == torch.bool and found["pair"].label[1:] == ["x", None]
    assert found["tuple"][0][1] is value["tuple"][0] and found["tuple"][1:] == (b"bytes", 7)
    assert found["text"] is value["text"] and found["objects"] is value["objects"]
    assert found["complex"][1].dtype == torch.complex64


def test_an_array_is_not_copied_without_need():
    array = np.zeros(3)
    each_tensor(array, same)[1] = 5
    assert array.tolist() == [0, 5, 0]


@pytest.mark.parametrize("array", [np.arange(4)[::-1], np.arange(4, dtype=">i4"), np.arange(6, dtype=">f8")[::-2]])
def test_arrays_that_torch_cannot_read_are_converted(array):
    assert each_tensor(array, same).tolist() == array.tolist()


def test_memory_that_must_not_be_written_is_not_handed_out_for_writing():
    array = np.frombuffer(b"\1\2\3", np.uint8)
    each_tensor(array, same)[0] = 9
    assert array.tolist() == [1, 2, 3]


def test_an_array_without_a_kind_of_tensor_is_named():
    with pytest.raises(StageError, match="an array of float128 cannot be a tensor – .*astype"):
        each_tensor({"x": np.ones(2, np.longdouble)}, same)
