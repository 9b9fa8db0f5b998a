import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.contract import FakeSource, assert_contract, assert_resumes_everywhere, same, samples
from webdataset.errors import CollationError, SpecError
from webdataset.stages import bucketed, packed, padded_collation, shuffle


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


def sequences(lengths):
    return [{"__key__": str(n), "tokens": np.full(size, n + 1), "mask": [n] * size} for n, size in enumerate(lengths)]


@given(lengths=st.lists(st.integers(0, 10), max_size=30), rows=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_packing_loses_nothing_and_resumes_everywhere(lengths, rows):
    out = assert_resumes_everywhere(
        [FakeSource(sequences(lengths)), packed(10, ["tokens", "mask"], rows), shuffle(2, 1)]
    )
    seen = {}
    for row in out:
        assert all(row[name].shape == (10,) for name in ("tokens", "mask", "segment_ids", "positions"))
        for number, key in enumerate(row["__keys__"], start=1):
            place = row["segment_ids"] == number
            seen[key] = place.sum()
            assert (row["tokens"][place] == int(key) + 1).all() and (row["mask"][place] == int(key)).all()
            assert row["positions"][place].tolist() == list(range(place.sum()))
        assert (row["tokens"][row["segment_ids"] == 0] == 0).all()
    assert seen == {str(n): size for n, size in enumerate(lengths)}


def test_first_fit():
    rows = [row["__keys__"] for row in packed(10, "tokens", rows=2)(sequences([6, 7, 3, 4, 9, 2]))]
    # 2 goes to 0; 3 fits neither row, so the fullest leaves; so again for 4; 5 goes to 3.
    assert rows == [["0", "2"], ["1"], ["3", "5"], ["4"]]


def test_a_full_row_is_handed_on_at_once():
    taken = []
    items = (taken.append(1) or sequence for sequence in sequences([4, 6, 5, 5]))
    assert next(packed(10, "tokens")(items))["__keys__"] == ["0", "1"] and len(taken) == 2


def test_overlong():
    with pytest.raises(CollationError, match="11 does not fit into rows of 10.*sample 0"):
        list(packed(10, "tokens")(sequences([11])))
    assert list(packed(10, "tokens", overlong="drop")(sequences([11]))) == []
    (row,) = packed(10, "tokens", overlong="cut")(sequences([11]))
    assert row["tokens"].tolist() == [1] * 10


def test_fields_must_be_of_one_length():
    with pytest.raises(CollationError, match="differ in length"):
        list(packed(10, ["a", "b"])([{"a": [1], "b": [1, 2]}]))


def test_packed_contract():
    assert_contract(sequences([3, 9, 4, 10, 2, 8, 1]), packed(10, "tokens", rows=2, value=-1))


@pytest.mark.parametrize("arguments", [(0, "x"), (10, []), (10, "x", 0), (10, "x", 1, 0, "split")])
def test_bad_packing_arguments_fail_at_once(arguments):
    with pytest.raises(SpecError):
        packed(*arguments)
