import functools

from tests.stages.contract import samples
from webdataset.describe import shown
from webdataset.stages import batched, map, rename, select, shuffle


class Callable:
    def __call__(self, sample):
        return sample


def test_no_addresses():
    assert shown(Callable()) == "<Callable>"
    assert shown(functools.partial(int, base=2)) == "partial(int, base=2)"
    assert repr(map(Callable())) == "map(f=<Callable>)"
    assert repr(select(lambda sample: sample)) == "select(predicate=test_no_addresses.<lambda>)"


def test_equal_stages_are_equal_and_hash_alike():
    for one, other in [(shuffle(5), shuffle(5)), (map(str), map(str)), (rename(a="b"), rename(a="b"))]:
        assert one == other and hash(one) == hash(other) and repr(one) == repr(other)
    assert shuffle(5) != shuffle(6) and batched(2) != batched(3)


def test_stages_cannot_be_changed():
    import dataclasses

    import pytest

    with pytest.raises(dataclasses.FrozenInstanceError):
        shuffle(5).bufsize = 6
    assert list(map(dict)(samples(1))) == samples(1)
