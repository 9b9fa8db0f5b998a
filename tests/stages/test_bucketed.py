import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.contract import FakeSource, assert_contract, assert_resumes_everywhere
from webdataset.errors import SpecError
from webdataset.stages import bucketed, padded_collation, shuffle


def length(sample):
    return sample


words = st.lists(st.integers(0, 30), max_size=40)


@given(items=words, size=st.integers(1, 5), partial=st.booleans())
@settings(max_examples=40, deadline=None)
def test_buckets_hold_similar_lengths_and_lose_nothing(items, size, partial):
    stage = bucketed(size, (5, 10, 20), length, None, partial)
    batches = assert_resumes_everywhere([FakeSource(items), stage])
    bounds = [0, 5, 10, 20, 31]
    for batch in batches:
        assert len({np.searchsorted(bounds, item, "right") for item in batch}) == 1
    if partial:
        assert sorted(sum(batches, [])) == sorted(items)
    else:
        assert all(len(batch) == size for batch in batches)


def test_each_bucket_may_have_its_own_size():
    stage = bucketed([3, 1], [10], length, collation_fn=None)
    assert list(stage([1, 20, 2, 3, 30])) == [[20], [1, 2, 3], [30]]


def test_lengths_by_field_and_position():
    assert list(bucketed(1, [2], "txt", None)([{"txt": "abc"}])) == [[{"txt": "abc"}]]
    (batch,) = bucketed(2, [2], 0, padded_collation())([(np.arange(3), 1), (np.arange(4), 2)])
    assert batch[0].shape == (2, 4)


def test_contract():
    items = [{"__key__": str(n), "x": [0] * (n % 7)} for n in range(25)]
    assert_contract(items, bucketed(3, (2, 4), "x", None), shuffle(3, 1))
    assert repr(bucketed(2, [4])) == "bucketed(batchsize=(2, 2), boundaries=(4,))"


@pytest.mark.parametrize(
    "arguments",
    [(0, [4]), (2, [4, 4]), (2, [4, 3]), ([1, 2, 3], [4]), (2, [4], None), (2, [4], 0, "stack")],
)
def test_bad_arguments_fail_at_once(arguments):
    with pytest.raises(SpecError):
        bucketed(*arguments)
