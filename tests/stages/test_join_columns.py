import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdataset.errors import FormatError, SpecError
from webdataset.stages import join_columns, join_samples


def column(field, keys):
    return [{"__key__": key, "__url__": f"{field}.tar", field: key} for key in keys]


def test_merges_by_key():
    joined = list(join_columns(column("x", "ab"), column("y", "ab"), column("z", "ab")))
    assert joined[1] == {"__key__": "b", "__url__": "x.tar", "x": "b", "y": "b", "z": "b"}
    assert len(joined) == 2


def test_is_a_source_that_can_be_iterated_again():
    stage = join_columns(column("x", "ab"), column("y", "ab"))
    assert list(stage) == list(stage()) and len(list(stage)) == 2
    assert list(pickle.loads(pickle.dumps(stage))) == list(stage)


@pytest.mark.parametrize(("left", "right"), [("ab", "ac"), ("ab", "ba"), ("ab", "a"), ("a", "ab"), ("", "a")])
def test_what_is_not_parallel_is_an_error(left, right):
    with pytest.raises(FormatError, match="not parallel") as caught:
        list(join_columns(column("x", left), column("y", right)))
    assert caught.value.where.shard is not None


def test_the_same_field_twice():
    both = column("x", "a"), [{"__key__": "a", "x": "other"}]
    with pytest.raises(FormatError, match="field x, sample a"):
        list(join_columns(*both))
    assert list(join_columns(*both, conflict="first"))[0]["x"] == "a"
    assert list(join_columns(*both, conflict="last"))[0]["x"] == "other"


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_drop_keeps_what_is_everywhere(one, two, three):
    sources = [column(name, map(str, sorted(keys))) for name, keys in (("x", one), ("y", two), ("z", three))]
    joined = [int(sample["__key__"]) for sample in join_samples(sources, missing="drop")]
    assert joined == sorted(one & two & three)


def test_drop_follows_a_dataset_of_which_few_are_wanted():
    many = column("y", map(str, range(5000)))
    few = column("x", map(str, range(0, 5000, 100)))
    assert len(list(join_samples([few, many], missing="drop", window=200))) == 50
    assert len(list(join_samples([many, few], missing="drop", window=200))) == 50


def test_drop_says_so_when_nothing_matches():
    sources = column("x", map(str, range(100))), column("y", map(str, range(1000, 1100)))
    with pytest.raises(FormatError, match="no key in common"):
        list(join_samples(sources, missing="drop", window=10))


@pytest.mark.parametrize(
    ("sources", "options"),
    [
        (([],), {}),
        (([], 3), {}),
        (([], []), {"missing": "skip"}),
        (([], []), {"conflict": "x"}),
        (([], []), {"window": 0}),
    ],
)
def test_bad_arguments_fail_at_once(sources, options):
    with pytest.raises(SpecError):
        join_columns(*sources, **options)


def test_repr_holds_no_data():
    assert repr(join_columns([], column("x", "ab"))) == "join_columns(list, list, missing='error')"
