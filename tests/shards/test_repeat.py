from itertools import islice

import numpy as np

from webdataset.shards import guess_batchsize, repeatedly, repeatedly0


def test_limits():
    assert list(repeatedly([1, 2], nepochs=2)) == [1, 2, 1, 2]
    assert list(repeatedly([1, 2], nbatches=3)) == [1, 2, 1]
    assert list(repeatedly([1, 2], nepochs=2, nbatches=3)) == [1, 2, 1]
    assert list(repeatedly([[(1, 2)], [(3, 4)]], nsamples=3)) == [[(1, 2)], [(3, 4)]]
    assert list(islice(repeatedly([1, 2]), 5)) == [1, 2, 1, 2, 1]
    assert list(repeatedly([1], nbatches=0)) == []


def test_D37_an_empty_source_ends_and_the_batch_size_is_asked():
    assert list(repeatedly([])) == list(repeatedly0([])) == []
    assert list(repeatedly(["abc", "de"], nsamples=6, batchsize=len)) == ["abc", "de", "abc"]


def test_repeatedly0_limits_each_pass():
    assert list(repeatedly0([1, 2, 3], 2, 2)) == [1, 2, 1, 2]


def test_sizes_of_batches():
    assert guess_batchsize((np.zeros((3, 2)), [1])) == 3 and guess_batchsize({"a": [1, 2]}) == 2
    assert guess_batchsize([np.zeros(4)]) == 4
