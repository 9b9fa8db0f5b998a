"""A stage whose own function fails: a state that is saved then goes on with the same groups, as if it had not failed."""

import json

import pytest
from tests.loader.sources import numbers, threads

import webdataset as wds

BAD = 13


class Fragile:
    """A function that fails on one number until it is repaired."""

    def __init__(self):
        self.broken = True

    def __repr__(self):
        return "Fragile()"

    def check(self, numbers):
        if self.broken and BAD in numbers:
            raise ValueError(BAD)

    def collated(self, numbers):
        self.check(numbers)
        return list(numbers)

    def length(self, number):
        self.check([number])
        return number % 10


class Tokens(Fragile):
    """A sample whose tokens cannot be measured."""

    def __call__(self, number):
        return {
            "__key__": str(number),
            "tokens": None if self.broken and number == BAD else [number] * (1 + number % 5),
        }


def rows(numbers):
    return [list(numbers)]


def fragile_stages():
    yield "collation", Fragile, lambda f: [wds.batched(8, collation_fn=f.collated)]
    yield "collation of the last batch", Fragile, lambda f: [wds.slice(14), wds.batched(8, collation_fn=f.collated)]
    yield "collation after shuffle", Fragile, lambda f: [wds.shuffle(5), wds.batched(4, collation_fn=f.collated)]
    yield "collation of a bucket", Fragile, lambda f: [bucketed(lambda n: n % 10, f.collated)]
    yield "length", Fragile, lambda f: [bucketed(f.length, None)]
    yield (
        "packed",
        Tokens,
        lambda f: [wds.map(f), wds.packed(8, "tokens", rows=3), wds.map(lambda row: row["__keys__"])],
    )


def bucketed(length, collate):
    return wds.bucketed((4, 3), boundaries=(6,), length=length, collation_fn=collate)


CASES = {name: (kind, stages) for name, kind, stages in fragile_stages()}


def plain(stages):
    return numbers(40).compose(*stages)


def on_threads(stages):
    return threads(plain(stages), 2)


def after_a_loader(stages):
    return threads(numbers(40).batched(3, collation_fn=rows), 2).unbatched().map(lambda row: row[0]).compose(*stages)


@pytest.mark.parametrize("make", [plain, on_threads, after_a_loader], ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", CASES)
def test_resumes_with_the_same_groups(name, make):
    """Mutation: take one more item into a batch that was full when its collation failed."""
    kind, stages = CASES[name]
    fragile = kind()

    def build():
        return make(stages(fragile))

    dataset, found = build(), []
    with pytest.raises((ValueError, wds.WebDatasetError)):
        for item in dataset:
            found.append(item)
    state = json.dumps(dataset.state_dict())
    dataset.close()
    fragile.broken = False
    whole, again = build(), build()
    again.load_state_dict(json.loads(state))
    assert found + list(again) == list(whole)
