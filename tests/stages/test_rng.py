from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.stages.contract import FakeSource, Run, samples
from webdataset.errors import SpecError
from webdataset.flow import Drawn, Pass
from webdataset.stages import map, rng, select
from webdataset.world import World


def draw(sample):
    return sample["__key__"], rng(sample).random()


def drawn(during, items=None):
    return dict(Run([FakeSource(items or samples(20)), map(draw)], during).items)


def test_depends_on_seed_epoch_and_sample():
    first = drawn(Pass(seed=1, epoch=0))
    assert len(set(first.values())) == 20
    assert first == drawn(Pass(seed=1, epoch=0))
    assert first != drawn(Pass(seed=1, epoch=1))
    assert first != drawn(Pass(seed=2, epoch=0))


def test_does_not_depend_on_fields_that_are_named_as_a_shard_s():
    sample = {"__key__": "a", "__url__": "a.tar"}
    assert rng({**sample, "url": b"...", "draw": b"..."}).random() == rng(sample).random()
    assert rng({**sample, "__url__": Drawn("a.tar", 1)}).random() != rng({**sample, "__url__": "a.tar"}).random()
    assert rng({"url": Drawn("a.tar", 1)}).random() != rng({"url": "a.tar"}).random()


def test_does_not_depend_on_order_or_topology():
    first = drawn(Pass(seed=1))
    assert first == drawn(Pass(seed=1), samples(20)[::-1])
    assert first == drawn(Pass(seed=1, world=World(rank=1, ranks=3, worker=1, workers=2)))


def test_does_not_depend_on_threads():
    function = map(draw).function(Pass(seed=1))
    with ThreadPoolExecutor(4) as pool:
        assert dict(pool.map(function, samples(200))) == drawn(Pass(seed=1), samples(200))


def test_equal_keys_of_different_shards_differ():
    assert rng({"__key__": "a", "__url__": "1.tar"}).random() != rng({"__key__": "a", "__url__": "2.tar"}).random()
    assert rng({"url": "1.tar"}).random() != rng({"url": "2.tar"}).random()


def test_outside_a_stage_seed_and_epoch_are_zero():
    sample = samples(1)[0]
    outside = rng(sample).random()
    assert outside == drawn(Pass())["0000"]
    inside = []
    list(Run([FakeSource([sample]), select(lambda s: inside.append(rng(s).random()))], Pass(seed=3)).items)
    assert inside[0] != outside == rng(sample).random()


def test_the_pass_is_left_when_a_function_fails():
    sample = samples(1)[0]
    outside = rng(sample).random()
    with pytest.raises(ZeroDivisionError):
        list(Run([FakeSource([sample]), map(lambda s: 1 / 0)], Pass(seed=3)).items)
    assert rng(sample).random() == outside


def test_nested_pipelines_give_the_pass_back():
    sample = samples(1)[0]

    def outer(item):
        before = rng(item).random()
        list(Run([FakeSource([sample]), map(draw)], Pass(seed=9)).items)
        return before == rng(item).random()

    assert list(Run([FakeSource([sample]), map(outer)], Pass(seed=3)).items) == [True]


def test_a_key_may_stand_for_its_sample():
    assert rng("a").random() == rng("a").random() != rng("b").random()


@pytest.mark.parametrize("sample", [(1, 2), {"jpg": 1}, None])
def test_what_has_no_key_is_refused(sample):
    with pytest.raises(SpecError, match="no key"):
        rng(sample)
