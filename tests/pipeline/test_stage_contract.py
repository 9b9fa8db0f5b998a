"""Our own stages pass the contract that we give to others, and a stage that breaks it is found out."""

from dataclasses import dataclass

import pytest

from webdataset import stages
from webdataset.flow import Progress, Resumable
from webdataset.testing import StageContract


class TestShuffle(StageContract):
    def stage(self):
        return stages.shuffle(6, initial=3)


class TestBatched(StageContract):
    def stage(self):
        return stages.batched(4, collation_fn=None)


class TestSelect(StageContract):
    def stage(self):
        return stages.select(is_odd)


class TestSlice(StageContract):
    def stage(self):
        return stages.slice(2, 17, 3)


class TestUnlisted(StageContract):
    def items(self):
        return [[1, 2, 3], [], [4], [5, 6]]

    def stage(self):
        return stages.unlisted()


def is_odd(n):
    return n % 2 == 1


@dataclass(frozen=True)
class Forgetful(Resumable):
    """Hands on pairs swapped, and does not say that it holds one item between two."""

    def start(self, during):
        return Progress()

    def run(self, items, at, /):
        for first in items:
            second = next(items, None)
            if second is not None:
                yield second
            yield first


class Broken(StageContract):
    def stage(self):
        return Forgetful()


def test_a_stage_that_loses_an_item_on_resume_is_found_out():
    with pytest.raises(AssertionError, match="resumed after 1 items"):
        Broken().test_resumes_at_every_step()
