import numpy as np
import pytest
import torch

from tests.stages.contract import FakeSource, Run, assert_contract, same
from webdataset.errors import CollationError, StageError
from webdataset.stages import unbatched, unlisted


def rows(batch):
    return list(unbatched()([batch]))


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (([1, 2], ["a", "b"]), [(1, "a"), (2, "b")]),
        ([[1, 2], [3, 4]], [(1, 3), (2, 4)]),
        ({"a": [1, 2], "b": np.arange(2)}, [{"a": 1, "b": np.int64(0)}, {"a": 2, "b": np.int64(1)}]),
        (({"x": [1, 2]}, [3, 4]), [({"x": 1}, 3), ({"x": 2}, 4)]),
        ({"a": {"b": {"c": [1, 2]}}}, [{"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}]),
        ((), []),
        ({}, []),
        (([], []), []),
    ],
)
def test_rows(batch, expected):
    assert same(rows(batch), expected)


def test_tensors():
    out = rows((torch.arange(4).reshape(2, 2), ["a", "b"]))
    assert out[1][0].tolist() == [2, 3] and out[1][1] == "b"


@pytest.mark.parametrize("batch", [([1, 2], ["a"]), ([1], ["a", "b"]), {"a": [1, 2], "b": [1]}, ({"x": [1]}, [1, 2])])
def test_columns_of_different_length_are_an_error_never_fewer_rows(batch):
    with pytest.raises(CollationError, match="different lengths"):
        rows(batch)


@pytest.mark.parametrize("batch", [3, "abc", None])
def test_what_is_no_batch_is_refused(batch):
    with pytest.raises(CollationError, match="not a batch"):
        rows(batch)
    with pytest.raises(CollationError, match="no length"):
        rows((3, [1]))


def test_unlisted_wants_lists():
    assert list(unlisted()([[1, 2], [], [3]])) == [1, 2, 3]
    with pytest.raises(StageError, match="unbatched"):
        list(unlisted()([(1, 2)]))


def test_resumes_in_the_middle_of_a_batch_without_reading_it_twice():
    source = FakeSource([([1, 2, 3], "abc"), ([], ""), ([4, 5], "de")])
    run = Run([source, unbatched()])
    next(run.items)
    state = run.state()
    assert state[1] == {"batch": ["source", 0], "row": 1}
    assert list(Run([source, unbatched()], state=state).items) == [(2, "b"), (3, "c"), (4, "d"), (5, "e")]
    assert source.recalled == 1


def test_contract():
    assert_contract([([1, 2, 3], "abc"), ([], ""), ([4], "d")], unbatched())
    assert_contract([[1, 2], [3]], unlisted())
    assert repr(unbatched()) == "unbatched()" and repr(unlisted()) == "unlisted()"
