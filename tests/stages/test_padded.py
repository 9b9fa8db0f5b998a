import numpy as np
import pytest

from tests.stages.contract import same
from webdataset.errors import CollationError, SpecError
from webdataset.stages import padded_collation


def test_padding():
    import torch

    collate = padded_collation(value={"a": -1}, multiple=4, lengths=True)
    batch = collate(
        [
            {"__key__": "x", "a": np.array([1, 2, 3]), "t": torch.ones(2)},
            {"__key__": "y", "a": np.array([4]), "t": torch.ones(1)},
        ]
    )
    padded, lengths = batch["a"]
    assert padded.tolist() == [[1, 2, 3, -1], [4, -1, -1, -1]] and lengths.tolist() == [3, 1]
    assert batch["t"][0].tolist() == [[1, 1, 0, 0], [1, 0, 0, 0]]
    assert batch["__key__"] == ["x", "y"]


def test_lengths_are_there_also_where_nothing_is_padded():
    collate = padded_collation(lengths=True)
    for sizes in [(3,), (3, 3), (3, 5), (0, 0)]:  # the last batch of an epoch may have one sample
        ((array, lengths), scalars, names) = collate([(np.ones(size), np.array(size), "a") for size in sizes])
        assert array.shape == (len(sizes), max(sizes)) and lengths.tolist() == list(sizes)
        assert scalars.tolist() == list(sizes) and names == ["a"] * len(sizes)


def test_padding_only_where_shapes_differ():
    images = [(np.ones((2, n, 3)), n) for n in (4, 6)]
    padded, numbers = padded_collation()(images)
    assert padded.shape == (2, 2, 6, 3) and padded[0, :, 4:].sum() == 0 and numbers.tolist() == [4, 6]
    assert same(padded_collation(multiple=8)([(np.ones(3),), (np.ones(3),)]), (np.ones((2, 3)),))


def test_padding_needs_the_same_number_of_axes():
    with pytest.raises(CollationError, match="axes"):
        padded_collation()([(np.ones(3),), (np.ones((3, 3)),)])
    with pytest.raises(SpecError):
        padded_collation(multiple=0)
