"""Stages, collation, handlers and helpers."""

import numpy as np

import webdataset as wds
from webdataset import filters, tariterators, utils

from .cases import case, result_of


SAMPLES = [{"__key__": f"{n}", "a": n, "b.x": f"{n}", "c": [n, n]} for n in range(5)]


def run(stage):
    return result_of(lambda: list(stage(iter([dict(sample) for sample in SAMPLES]))))


@case
def stages():
    def add(value):
        return value + value

    return {
        "map": run(wds.map(lambda s: {"a": s["a"]})),
        "map None": run(wds.map(lambda s: None if s["a"] == 2 else s)),
        "select": run(wds.select(lambda s: s["a"] % 2)),
        "map_dict": run(wds.map_dict(a=add)),
        "map_dict missing": run(wds.map_dict(z=add)),
        "rename": run(wds.rename(new="z;a")),
        "rename missing": run(wds.rename(new="z")),
        "rename keep": run(wds.rename(keep=False, new="a", other="b.x")),
        "to_tuple": run(wds.to_tuple("a", "z;b.x", "__key__")),
        "to_tuple blanks": run(wds.to_tuple("a c")),
        "to_tuple list": run(wds.to_tuple(["z", "a"])),
        "to_tuple missing": run(wds.to_tuple("a", "z")),
        "to_tuple none": run(wds.to_tuple("a", "z", missing_is_error=False)),
        "extract_keys": run(wds.extract_keys("a", "*.x")),
        "extract_keys missing": run(wds.extract_keys("nothing")),
        "extract_keys ignored": run(wds.extract_keys("a", "nothing", ignore_missing=True)),
        "rename_keys": run(wds.rename_keys(("label", "a"), ("text", "*.x"))),
        "rename_keys kept": run(wds.rename_keys(("label", "a"), keep_unselected=True)),
        "associate": run(wds.associate({"1": {"extra": 1}})),
        "batched": run(wds.batched(2)),
        "batched full": run(wds.batched(2, partial=False)),
        "batched list": run(wds.batched(2, collation_fn=None)),
        "unlisted": result_of(lambda: list(filters.unlisted()(iter([[1, 2], [3]])))),
        "unbatched": result_of(lambda: list(wds.unbatched()(iter([(np.arange(3), ["a", "b", "c"])])))),
        "unbatched dict": result_of(lambda: list(wds.unbatched()(iter([{"x": [1, 2], "y": "ab"}])))),
        "map_tuple": result_of(lambda: list(wds.map_tuple(add, None)(iter([(1, 2, 3), [4, 5]])))),
        "slice": run(wds.slice(1, 4, 2)),
        "rsample all": run(wds.rsample(1.0)),
        "rsample none": run(wds.rsample(0.0)),
        "xdecode": result_of(
            lambda: list(
                wds.xdecode(("*.n", lambda s: int(s.read())))(iter([{"__key__": "k", "x.txt": b"t", "x.n": b"3"}]))
            )
        ),
    }


@case
def collation():
    columns = {
        "ints": [1, 2],
        "floats": [1.5, 2.5],
        "bools": [True, False],
        "strings": ["a", "b"],
        "bytes": [b"a", b"b"],
        "nones": [None, None],
        "arrays": [np.ones((2, 2)), np.zeros((2, 2))],
        "lists": [[1], [2]],
    }
    return {
        name: result_of(filters.default_collation_fn, [(value,) for value in values])
        for name, values in columns.items()
    }


@case
def handlers():
    def fails(sample):
        if sample["a"] % 2:
            raise ValueError("odd")
        return sample["a"]

    return {
        name: run(wds.map(fails, handler=getattr(wds, name)))
        for name in ("reraise_exception", "ignore_and_continue", "ignore_and_stop")
    }


@case
def helpers():
    return {
        "getfirst": result_of(wds.getfirst, {"a": 1}, "b;a"),
        "getfirst missing": result_of(wds.getfirst, {"a": 1}, "b"),
        "getfirst default": result_of(wds.getfirst, {"a": 1}, "b", 7, False),
        "parse_field_spec": filters.parse_field_spec("a;b c"),
        "transform_with": filters.transform_with((1, 2, 3), [str]),
        "tuple2dict": filters.tuple2dict((1, 2)),
        "base_plus_ext": [list(tariterators.base_plus_ext(n)) for n in ("a.b.c", "x/a.b", "a", "x.y/a")],
        "valid_sample": [tariterators.valid_sample(s) for s in ({}, {"a": 1}, {"a": 1, "__bad__": True}, None)],
        "weights": utils.compute_sample_weights([(10, 1.0), (20, 2.0)]),
        "guess_batchsize": utils.guess_batchsize(([1, 2, 3],)),
        "repeatedly": list(utils.repeatedly([1, 2], nepochs=2)),
        "repeatedly batches": list(utils.repeatedly([1, 2], nbatches=3)),
    }
