from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stages.contract import assert_contract
from webdataset.errors import SpecError
from webdataset.stages import slice

number = st.none() | st.integers(0, 12)


@given(start=number, stop=number, step=st.none() | st.integers(1, 4))
def test_is_islice(start, stop, step):
    assert list(slice(start, stop, step)(range(10))) == list(islice(range(10), start, stop, step))


@pytest.mark.parametrize("arguments", [(3,), (0,), (2, 5), (1, None, 2), (2, 9, 3), (None,), (20, None)])
def test_resumes_everywhere(arguments):
    assert assert_contract(range(10), slice(*arguments)) == list(islice(range(10), *arguments))


def test_takes_nothing_beyond_its_end():
    numbers = count()
    assert list(slice(3)(numbers)) == [0, 1, 2]
    assert next(numbers) == 3


@pytest.mark.parametrize("arguments", [(), (-1,), (1, 2, 0), (1, 2, 3, 4), ("3",), (1.5,)])
def test_bad_arguments_fail_at_once(arguments):
    with pytest.raises(SpecError):
        slice(*arguments)
