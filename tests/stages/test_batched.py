import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.contract import (
    FakeSource,
    Run,
    assert_contract,
    assert_resumes_everywhere,
    same,
    samples,
)
from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.stages import batched, listed, shuffle, to_tuple, unbatched, unlisted


def test_D42_a_full_batch_is_handed_on_at_once():
    taken = []
    items = (taken.append(n) or (n,) for n in range(10))
    next(iter(batched(4)(items)))
    assert len(taken) == 4


def test_D42_columns_keep_the_order_of_the_fields():
    (batch,) = batched(2)([{"z": 1, "a": 2, "__key__": "k"}, {"a": 3, "__key__": "l", "z": 4}])
    assert list(batch) == ["z", "a", "__key__"]
    assert batch["z"].tolist() == [1, 4] and batch["__key__"] == ["k", "l"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((2, None), [[1, 2], [3]]),
        ((2, None, False), [[1, 2]]),
        ((2, tuple), [(1, 2), (3,)]),
        ((3, None, False), [[1, 2, 3]]),
        ((5, None), [[1, 2, 3]]),
        ((5, None, False), []),
    ],
)
def test_sizes(arguments, expected):
    assert list(batched(*arguments)([1, 2, 3])) == expected


def test_no_samples_no_batch():
    assert list(batched(2)([])) == []


def test_D28_listed_honours_partial():
    assert list(listed(2)([1, 2, 3])) == [[1, 2], [3]]
    assert list(listed(2, partial=False)([1, 2, 3])) == [[1, 2]]


@pytest.mark.parametrize("partial", [True, False])
def test_resumes_everywhere(partial):
    assert_contract(samples(11), to_tuple("__key__", "n"), batched(4, partial=partial))
    assert_contract(range(11), listed(4, partial))
    assert_contract(samples(11), batched(4, partial=partial), shuffle(3, 2), unbatched(), shuffle(5, 2))
    assert_contract(range(11), listed(3), unlisted(), listed(2), shuffle(2, 1), unlisted())


def test_the_origin_of_a_batch_is_the_list_of_its_samples_origins():
    run = Run([FakeSource(range(5)), listed(2)])
    next(run.items)
    assert run.at[-1].origin == [["source", 0], ["source", 1]]


def test_a_batch_interrupted_by_an_error_is_still_held():
    class Breaks(FakeSource):
        def run(self, items, at, /):
            for item in super().run(items, at):
                if item == 3:
                    raise OSError("gone")
                yield item

    run = Run([Breaks(range(10)), listed(2)])
    assert next(run.items) == [0, 1]
    with pytest.raises(OSError, match="gone"):
        next(run.items)
    assert run.state()[1] == {"held": [["source", 2]]}


def test_a_batch_that_cannot_be_collated_is_still_held():
    run = Run([FakeSource([(np.zeros(2),), (np.zeros(3),)]), batched(2)])
    with pytest.raises(ValueError, match="different shapes"):
        next(run.items)
    assert len(run.state()[1]["held"]) == 2


rows = st.lists(st.tuples(st.integers(-9, 9), st.text(max_size=3), st.floats(allow_nan=False)), max_size=20)


@given(rows=rows, size=st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_unbatched_undoes_batched(rows, size):
    assert list(unbatched()(batched(size)(rows))) == rows
    dicts = [dict(zip("abc", row)) for row in rows]
    assert list(unbatched()(batched(size)(dicts))) == dicts
    assert list(unlisted()(listed(size)(rows))) == rows


@given(count=st.integers(0, 20), size=st.integers(1, 6), partial=st.booleans())
@settings(max_examples=30, deadline=None)
def test_batches_resume_everywhere(count, size, partial):
    assert_resumes_everywhere([FakeSource(samples(count)), batched(size, partial=partial), unbatched(), shuffle(4, 2)])


@pytest.mark.parametrize("size", [0, -1, 2.5, "4", None, True])
def test_bad_sizes_fail_at_once(size):
    with pytest.raises(SpecError, match="batchsize"):
        batched(size)
    with pytest.raises(SpecError, match="batchsize"):
        listed(size)


def test_bad_collation_fails_at_once():
    with pytest.raises(SpecError, match="collation_fn"):
        batched(3, "stack")


def test_repr():
    assert repr(batched(4)) == "batched(batchsize=4)"
    assert repr(batched(4, None, False)) == "batched(batchsize=4, collation_fn=None, partial=False)"


def test_rows_of_stacked_arrays():
    items = [(np.full(3, n), n) for n in range(4)]
    assert same(list(unbatched()(batched(4)(items))), [(np.full(3, n), np.int64(n)) for n in range(4)])


def test_Pass_is_not_needed_alone():
    assert batched(2).start(Pass()).save() is None
