"""Mixing and stages."""

import io
import random
from itertools import islice

import pytest

import webdataset as wds

from .room import of


@of("RandomMix.datasets", "RandomMix.probs", "RandomMix.longest")
def _(room):
    one, two = [1] * 300, [2] * 300
    mixed = list(islice(wds.RandomMix([one, two], probs=[0.9, 0.1]), 200))
    assert mixed.count(1) > 140
    assert len(list(wds.RandomMix([one, two], longest=True))) == 600
    assert len(list(wds.RandomMix([one, two]))) < 600


@of("RoundRobin.datasets", "RoundRobin.longest")
def _(room):
    assert list(wds.RoundRobin([[1, 2], [10]])) == [1, 10, 2]
    assert list(wds.RoundRobin([[1, 2, 3], [10]], longest=True)) == [1, 10, 2, 3]


@of("MockDataset.sample", "MockDataset.length")
def _(room):
    assert list(wds.MockDataset("x", 2)) == ["x", "x"]


@of("shuffle.bufsize", "shuffle.initial")
def _(room):
    taken = []
    stream = wds.shuffle(20, initial=5, seed=1)(taken.append(n) or n for n in range(100))
    next(stream)
    assert 5 <= len(taken) <= 6
    assert max(abs(n - place) for place, n in enumerate(islice(stream, 50), 1)) < 100
    assert list(wds.shuffle(1)(iter(range(9)))) == list(range(9))


@of("shuffle.rng", "shuffle.seed", "shuffle.handler")
def _(room):
    def order(**options):
        return list(wds.shuffle(10, **options)(iter(range(30))))

    assert order(seed=1) == order(seed=1)
    assert order(seed=1) != order(seed=2)
    assert order(rng=random.Random(3)) == order(rng=random.Random(3), handler=wds.ignore_and_stop)
    with pytest.raises(ValueError, match="both"):
        wds.shuffle(10, seed=1, rng=random.Random(1))


@of("detshuffle.bufsize", "detshuffle.initial", "detshuffle.seed", "detshuffle.epoch")
def _(room):
    def order(**options):
        return list(wds.detshuffle(**{"bufsize": 10, **options})(iter(range(30))))

    assert order(seed=1) == order(seed=1)
    assert len({tuple(order(**o)) for o in ({}, {"seed": 1}, {"epoch": 3}, {"bufsize": 5}, {"initial": 2})}) == 5
    assert order(bufsize=1) == list(range(30))


@of("batched.batchsize", "batched.collation_fn", "batched.partial")
def _(room):
    numbers = [(n,) for n in range(5)]
    assert [len(b[0]) for b in wds.batched(2)(iter(numbers))] == [2, 2, 1]
    assert [len(b[0]) for b in wds.batched(2, partial=False)(iter(numbers))] == [2, 2]
    assert list(wds.batched(5, collation_fn=len)(iter(numbers))) == [5]


@of("to_tuple.handler", "to_tuple.missing_is_error", "to_tuple.none_is_error")
def _(room):
    samples = [{"a": 1, "b": 2}, {"a": 1}, {"a": None, "b": 2}]
    assert list(wds.to_tuple("a", "b", handler=wds.ignore_and_continue)(iter(samples))) == [(1, 2)]
    assert list(wds.to_tuple("a", "b", missing_is_error=False)(iter(samples))) == [(1, 2), (1, None), (None, 2)]
    loose = wds.to_tuple("a", "b", missing_is_error=True, none_is_error=False, handler=wds.ignore_and_continue)
    assert list(loose(iter(samples))) == [(1, 2), (None, 2)]


@of("rename.handler", "rename.keep")
def _(room):
    samples = [{"a": 1, "z": 0}, {"b": 1}]
    assert list(wds.rename(x="a", handler=wds.ignore_and_continue)(iter(samples))) == [{"z": 0, "x": 1}]
    assert list(wds.rename(x="a;b", keep=False)(iter(samples))) == [{"x": 1}, {"x": 1}]


@of("info.fmt", "info.n", "info.every", "info.width", "info.stream", "info.name")
def _(room):
    def shown(**options):
        out = io.StringIO()
        list(wds.info(stream=out, **options)(iter([{"__key__": str(n), "a": "x" * 100} for n in range(10)])))
        return out.getvalue()

    assert shown(n=2).count("---") < shown(n=2, every=2).count("---")
    assert "mine" in shown(name="mine")
    assert shown(fmt="key {__key__}", n=1).strip() == "key 0"
    assert "x" * 60 not in shown(width=20)
    assert "x" * 60 in shown(width=200)
