"""A join of datasets as a stage: the pipeline around it sets the epoch of each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from webdataset.errors import StateError
from webdataset.flow import Json, Pass, Resumable
from webdataset.stages import JoinColumns

from ._nested import NestedProgress, PartsProgress


class JoinProgress(PartsProgress):
    """Where the datasets began; what was joined since is read again."""

    def save(self) -> Json:
        """Not in the middle of a pass: the join may hold samples of one dataset that another one lacks."""
        raise StateError("a join has no state in the middle of a pass")


@dataclass(frozen=True)
class Joined(Resumable):
    """The samples of a join."""

    join: JoinColumns
    nested: type[Any]  # what makes a dataset of any other iterable

    @cached_property
    def datasets(self) -> list[Any]:
        """The datasets of the join; any other iterable as a dataset."""
        return [each if isinstance(each, self.nested) else self.nested(each) for each in self.join.sources]

    def start(self, during: Pass) -> JoinProgress:
        """Return the progress of a pass, whose number is that of the epoch of each dataset."""
        return JoinProgress([NestedProgress(dataset, during) for dataset in self.datasets])

    def run(self, items: Iterator[Any], at: JoinProgress, /) -> Iterator[Any]:
        """Join the epochs."""
        try:
            yield from self.join.of_streams([part.open() for part in at.parts])
        finally:
            at.end_pass()
