import random

import pytest

from tests.stages.contract import FakeSource, Run, assert_contract, samples
from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.stages import rsample, shuffle


def kept(p, during):
    return list(Run([FakeSource(range(2000)), rsample(p)], during).items)


def test_share():
    assert 850 < len(kept(0.5, Pass(seed=1))) < 1150
    assert kept(0, Pass()) == [] and len(kept(1, Pass())) == 2000


def test_reproducible_and_new_each_epoch():
    assert kept(0.5, Pass(seed=1)) == kept(0.5, Pass(seed=1))
    assert kept(0.5, Pass(seed=1)) != kept(0.5, Pass(seed=1, epoch=1))
    assert kept(0.5, Pass(seed=1)) != kept(0.5, Pass(seed=2))


def test_resumes_everywhere():
    assert_contract(samples(30), rsample(0.4), shuffle(5, 2))


def test_D52_leaves_the_global_generator_alone():
    random.seed(1)
    state = random.getstate()
    list(rsample(0.5)(range(100)))
    assert random.getstate() == state


@pytest.mark.parametrize("p", [-0.1, 1.1, "0.5", None, True])
def test_D49_bad_arguments_fail_at_once(p):
    with pytest.raises(SpecError):
        rsample(p)
