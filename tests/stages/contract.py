"""The contract of a stage: it pickles, its repr has no address, and it resumes exactly at every step."""

import json
import pickle
import re
from dataclasses import replace

import numpy as np

from webdataset.flow import DROP, Pass, PerItem, Progress, Resumable, Source, apply_each


class Numbered(Progress):
    def __init__(self):
        self.taken = 0

    @property
    def origin(self):
        return ["source", self.taken - 1]

    def save(self):
        return {"taken": self.taken}

    def load(self, saved, recall):
        self.taken = saved["taken"]


class FakeSource(Source):
    """Items of a list; an item's origin is its number. Counts how often an item is read again."""

    def __init__(self, items):
        self.all, self.recalled = list(items), 0

    def start(self, during):
        return Numbered()

    def run(self, items, at, /):
        while at.taken < len(self.all):
            at.taken += 1
            yield fresh(self.all[at.taken - 1])

    def recall(self, origin):
        self.recalled += 1
        return fresh(self.all[origin[1]])


def fresh(item):
    return dict(item) if isinstance(item, dict) else item


class Run:
    """The smallest pipeline that follows the protocol of `flow`."""

    def __init__(self, stages, during=Pass(seed=5), state=None):
        self.at, self.way, items = [], [], iter(())
        for number, stage in enumerate(stages):
            now = replace(during, stage=number)
            if isinstance(stage, PerItem):
                function = stage.function(now)
                items = apply_each([function], items)
                self.way.append(function)
                continue
            at = stage.start(now)
            at.upstream = self.at[-1] if self.at else None
            if state is not None and state[len(self.at)] is not None:
                at.load(state[len(self.at)], self._recall(len(self.way)))
            items = stage.run(items, at)
            self.at.append(at)
            self.way.append(stage)
        self.items = items

    def _recall(self, upto):
        def recall(origin):
            step, before = self.way[upto - 1], self._recall(upto - 1)
            if isinstance(step, Resumable):
                return step.again(origin, before)
            item = step(before(origin))
            assert item is not DROP
            return item

        return recall

    def state(self):
        rewound = max((number for number, at in enumerate(self.at) if at.rewinds), default=0)
        return [at.save_start() if number < rewound else at.save() for number, at in enumerate(self.at)]


def assert_contract(items, *stages, during=Pass(seed=5)):
    """Check every stage of the chain, alone and together; return what comes out."""
    for stage in stages:
        copy = pickle.loads(pickle.dumps(stage))
        assert repr(copy) == repr(stage)
        assert not re.search(r"0x[0-9a-f]{4}", repr(stage)), repr(stage)
    return assert_resumes_everywhere([FakeSource(items), *stages], during)


def assert_resumes_everywhere(stages, during=Pass(seed=5)):
    run, states, seen = Run(stages, during), [], []
    while True:
        states.append(json.loads(json.dumps(run.state())))
        try:
            seen.append(next(run.items))
        except StopIteration:
            break
    states.append(json.loads(json.dumps(run.state())))  # after the end was noticed
    seen.append("end")
    assert same(list(Run(stages, during).items), seen[:-1]), "a second run of the same pass differs"
    for number, state in enumerate(states):
        assert all(a == b for a, b in zip(shape(state), shape(states[-1]), strict=True) if a and b), number
        rest = list(Run(stages, during, state).items)
        assert same(rest, seen[number:-1]), f"resuming at item {number} gives {rest}, not {seen[number:-1]}"
    return seen[:-1]


def shape(state):
    """The state without its values: lists may grow, a stage may hold nothing (None), keys may not change."""
    return [None if part is None else sorted(part) if isinstance(part, dict) else type(part) for part in state]


def same(one, other):
    """Equality that looks into arrays and tensors."""
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if hasattr(one, "numpy"):
        return same(one.numpy(), other.numpy())
    return type(one) is type(other) and one == other


def samples(count, **more):
    """Samples with a key, a shard and a number."""
    return [{"__key__": f"{n:04}", "__url__": f"{n // 5}.tar", "n": n, **more} for n in range(count)]
