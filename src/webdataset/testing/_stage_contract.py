"""StageContract: the tests of every stage. Subclass it in your tests; pytest runs the methods that it inherits."""

from __future__ import annotations

import json
import pickle
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from webdataset.flow import Json, Pass, Progress, Recall, Source
from webdataset.pipeline import DataPipeline

from ._resume_check import assert_resumes_everywhere, equal


class _Counted(Progress):
    def __init__(self) -> None:
        self.taken = 0

    @property
    def origin(self) -> Json:
        return ["items", self.taken - 1, -1]

    def save(self) -> Json:
        return self.taken

    def load(self, saved: Json, recall: Recall) -> None:
        self.taken = saved


@dataclass(frozen=True)
class _Items(Source):
    """The items of a list, each with an origin by which it can be read again."""

    items: Sequence[Any] = field(repr=False)
    broken: int | None = field(default=None, repr=False)  # the number of the item that cannot be read

    def start(self, during: Pass) -> _Counted:
        return _Counted()

    def run(self, items: Iterator[Any], at: _Counted, /) -> Iterator[Any]:
        while at.taken < len(self.items):
            if at.taken == self.broken:
                raise ConnectionError
            at.taken += 1
            yield self.recall(at.origin)

    def recall(self, origin: Json) -> Any:
        return pickle.loads(pickle.dumps(self.items[origin[1]]))  # noqa: S301 - a copy, made a moment ago


class StageContract(ABC):
    """The tests that every stage passes: it pickles, its repr is readable, and it resumes at every step.

    >>> from webdataset import stages
    >>> class TestPairs(StageContract):
    ...     def stage(self):
    ...         return stages.batched(2, collation_fn=None)
    >>> TestPairs().test_resumes_at_every_step()
    """

    @abstractmethod
    def stage(self) -> Any:
        """A new stage, always the same."""

    def items(self) -> list[Any]:
        """The items before the stage; numbers by default."""
        return list(range(23))

    def pipeline(self, broken: int | None = None) -> DataPipeline:
        """The stage after a source of the items, one of which may be broken."""
        return DataPipeline(_Items(self.items(), broken), self.stage())

    def test_resumes_at_every_step(self) -> None:
        assert_resumes_everywhere(self.pipeline)

    def test_resumes_at_every_step_of_several_passes(self) -> None:
        assert_resumes_everywhere(lambda: self.pipeline().repeat(2))

    def test_resumes_after_an_error_at_every_item(self) -> None:
        whole = list(self.pipeline())
        for number in range(len(self.items())):
            broken, again = self.pipeline(number), self.pipeline()
            found: list[Any] = []
            try:
                found += broken  # to the end, if it does not take that many
            except ConnectionError:
                again.load_state_dict(json.loads(json.dumps(broken.state_dict())))
                found += again
            assert equal(found, whole), f"after an error at item {number}"

    def test_a_second_run_of_the_same_pass_is_the_same(self) -> None:
        assert equal(list(self.pipeline()), list(self.pipeline()))

    def test_the_state_keeps_its_shape(self) -> None:
        pipeline = self.pipeline()
        shapes = [_shape(json.loads(json.dumps(pipeline.state_dict()["at"]))) for _ in pipeline]
        kinds = [{part for part in parts if part} for parts in zip(*shapes, strict=True)]
        assert all(len(kind) <= 1 for kind in kinds), kinds

    def test_a_saved_state_does_not_change_later(self) -> None:
        """A loader keeps states while the stage continues: `save` must not return objects that the stage changes."""
        pipeline = self.pipeline()
        states = []
        for _ in pipeline:
            cursor = pipeline._cursor()
            states.append((cursor, json.dumps(cursor.to_json())))
        assert [json.dumps(cursor.to_json()) for cursor, _ in states] == [text for _, text in states]

    def test_it_pickles_and_says_what_it_is(self) -> None:
        stage = self.stage()
        assert repr(pickle.loads(pickle.dumps(stage))) == repr(stage)  # noqa: S301 - pickled a moment ago
        assert not re.search(r"0x[0-9a-f]{4}", repr(stage)), f"an address in {stage!r}"


def _shape(state: Json) -> list[str]:
    """The state without its values: lists may grow, and a stage may hold nothing; keys may not change."""
    if "stages" in state:
        return [repr(sorted(part)) if isinstance(part, dict) else "" for part in state["stages"]]
    return [repr(sorted(state.keys() - {"skip"}))]
