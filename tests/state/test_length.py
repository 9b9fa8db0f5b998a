"""`len()` is the number of items of the epoch, or it refuses."""

import pytest

from tests.state.reference import Reference
from tests.state.test_every_stop_point import IN_ONE_PROCESS


@pytest.mark.parametrize("name", IN_ONE_PROCESS)
def test_length_is_exact_or_refused(name):
    composition = IN_ONE_PROCESS[name]
    try:
        length = len(composition.build())
    except TypeError:
        return
    assert length == len(Reference(composition.build, 1).epochs[0])
