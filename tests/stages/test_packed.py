import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.contract import FakeSource, assert_contract, assert_resumes_everywhere
from webdataset.errors import CollationError, SpecError
from webdataset.stages import packed, shuffle


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


@given(lengths=st.lists(st.integers(0, 37), max_size=12), rows=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_splitting_throws_nothing_away_and_resumes_everywhere(lengths, rows):
    texts = [
        {"__key__": str(n), "tokens": np.arange(size) + 100 * n, "mask": list(range(size))}
        for n, size in enumerate(lengths)
    ]
    stage = packed(10, ["tokens", "mask"], rows, overlong="split")
    seen = []
    for row in assert_resumes_everywhere([FakeSource(texts), stage, shuffle(2, 1)]):
        for number, key in enumerate(row["__keys__"], start=1):
            place = row["segment_ids"] == number
            tokens = row["tokens"][place].tolist()
            assert [token // 100 for token in tokens] == [int(key)] * len(tokens), "a segment is of one sample"
            assert tokens == list(range(tokens[0], tokens[0] + len(tokens)))
            assert row["positions"][place].tolist() == list(range(len(tokens)))
            seen += tokens
    assert sorted(seen) == [100 * n + token for n, size in enumerate(lengths) for token in range(size)]


def test_a_long_sequence_fills_rows_and_leaves_a_rest():
    rows = list(packed(10, "tokens", rows=2, overlong="split")(sequences([4, 23, 3])))
    assert [row["__keys__"] for row in rows] == [["1"], ["1"], ["0", "1", "2"]]


def test_fields_must_be_of_one_length():
    with pytest.raises(CollationError, match="differ in length"):
        list(packed(10, ["a", "b"])([{"a": [1], "b": [1, 2]}]))


def test_resumes_between_two_rows_that_one_sequence_sends_off():
    rows = assert_contract(sequences([6, 7, 10, 4]), packed(10, "tokens", rows=2))
    assert [row["__keys__"] for row in rows] == [["1"], ["2"], ["0", "3"]]


def test_packed_contract():
    assert_contract(sequences([3, 9, 4, 10, 2, 8, 1]), packed(10, "tokens", rows=2, value=-1))


@pytest.mark.parametrize("arguments", [(0, "x"), (10, []), (10, "x", 0), (10, "x", 1, 0, "shorten")])
def test_bad_packing_arguments_fail_at_once(arguments):
    with pytest.raises(SpecError):
        packed(*arguments)


def test_the_call_that_an_error_proposes_works():
    with pytest.raises(SpecError) as caught:
        packed(8, ())
    assert eval(caught.value.hint.removeprefix("for example "), {"packed": packed}).size == 2048
