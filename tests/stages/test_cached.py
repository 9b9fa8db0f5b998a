import logging

import pytest

from webdataset.errors import SpecError
from webdataset.stages import Cached


def test_D57_the_memory_has_a_limit(caplog):
    stage = Cached(limit_bytes=1000)
    with caplog.at_level(logging.WARNING):
        assert len(list(stage([bytes(300)] * 5))) == 5
    assert "nothing is kept" in caplog.text and not stage.memory.recordings
    assert list(Cached(10**6)([1])) == [1]
    with pytest.raises(SpecError):
        Cached(-1)


def test_tuples_and_tensors_are_measured():
    import torch

    from webdataset.stages._cached import bytes_of

    assert bytes_of((torch.zeros(100), [b"x" * 500])) >= 900
