from itertools import islice

import numpy as np
import pytest

from webdataset.errors import SpecError
from webdataset.stages import guess_batchsize, repeatedly


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (dict(nepochs=2), [1, 2, 1, 2]),
        (dict(nbatches=3), [1, 2, 1]),
        (dict(nepochs=5, nbatches=3), [1, 2, 1]),
        (dict(nepochs=1, nbatches=9), [1, 2]),
        (dict(nepochs=0), []),
        (dict(nbatches=0), []),
    ],
)
def test_limits(limits, expected):
    assert list(repeatedly([1, 2], **limits)) == expected


def test_without_a_limit_it_goes_on():
    assert list(islice(repeatedly([1, 2]), 5)) == [1, 2, 1, 2, 1]


def test_D37_an_empty_source_ends():
    assert list(repeatedly([])) == []
    assert list(repeatedly(iter([1]))) == [1]


def test_D37_batchsize_is_asked():
    batches = [[1, 2, 3], [4, 5, 6]]
    assert list(repeatedly(batches, nsamples=7, batchsize=len)) == [*batches, batches[0]]
    assert list(repeatedly([([1, 2], "ab")], nsamples=4)) == [([1, 2], "ab")] * 2


def test_guess_batchsize():
    assert guess_batchsize([np.zeros(3)]) == 3 == guess_batchsize({"a": np.zeros(3)})


def test_takes_nothing_beyond_its_limit():
    source = iter(range(10))
    assert list(repeatedly(source, nbatches=3)) == [0, 1, 2] and next(source) == 3


def test_bad_arguments_fail_at_once():
    with pytest.raises(SpecError):
        repeatedly([1], nepochs=-1)
