import io
import pickle

import pytest

from tests.stages.contract import assert_contract, samples
from webdataset.errors import SpecError
from webdataset.stages import info


def shown(items, **arguments):
    stream = io.StringIO()
    assert list(info(stream=stream, **arguments)(items)) == list(items)
    return stream.getvalue()


def test_as_the_public_one():
    assert shown([{"__key__": "k", "jpg": 2}] * 2, name="nm", n=1) == "--- nm\n__key__ 'k'\njpg 2\n"
    assert shown([{"i": i} for i in range(7)], fmt="{i}", n=1, every=2).split() == ["0", "1", "3", "5"]
    assert shown([{"i": "x" * 40}], width=10) == "--- \ni 'xxxxxxxxx\n"


def test_tuples_and_other_items_can_be_looked_at():
    assert shown([(1, "a")]) == "--- \n0 1\n1 'a'\n"
    assert shown([7]) == "--- \n0 7\n"
    assert shown([(1, "a")], fmt="{1}") == "a\n"


def test_standard_error_is_found_when_it_is_written_to(capsys):
    list(info(n=1)([{"a": 1}]))
    captured = capsys.readouterr()
    assert captured.err == "--- \na 1\n" and captured.out == ""


def test_contract():
    assert_contract(samples(5), info(n=0))
    assert repr(pickle.loads(pickle.dumps(info("{n}", 1)))) == "info(fmt='{n}', n=1)"


def test_bad_arguments_fail_at_once():
    with pytest.raises(SpecError):
        info(n="3")
