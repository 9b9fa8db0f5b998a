"""A state must be JSON: a value that is not is refused with the name of the stage that saved it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any

from webdataset.describe import shown
from webdataset.errors import StageError, Where
from webdataset.flow import Json, PerItem, Resumable

from ._cursor import Beginning, Cursor, InStages

_HINT = "save numbers, text, lists and dicts; in place of a sample save its origin, and load it with recall(origin)"


def require_json(cursor: Cursor, stages: Sequence[Any], outer: Any = None) -> None:
    """Refuse a cursor with a value that is not JSON.

    >>> require_json(Cursor(0, where=InStages(([{1, 2}],))), [], outer="pairs()")
    Traceback (most recent call last):
    webdataset.errors.StageError: the stage saved a value of type set, which is not JSON – ...

    Args:
        cursor: of a pipeline.
        stages: its stages.
        outer: the stage that is named where an inner stage is not known.
    """
    where = cursor.where
    saved = where.progress if isinstance(where, InStages) else where.starts if isinstance(where, Beginning) else ()
    for progress, stage in zip(saved, chain(_with_progress(stages), repeat(outer)), strict=False):
        _check(progress, stage)


def _with_progress(stages: Iterable[Any]) -> list[Any]:
    """The stages that have a progress; neighbouring functions of one item have one together."""
    found: list[Any] = []
    for stage in stages:
        function = isinstance(stage, PerItem)
        if not (function and found and isinstance(found[-1], PerItem)) and (
            function or isinstance(stage, Resumable) or hasattr(stage, "pipeline")
        ):
            found.append(stage)
    return found


def _check(value: Json, stage: Any) -> None:
    if isinstance(value, Cursor):
        inner = getattr(stage, "dataset", stage)
        require_json(value, getattr(inner, "pipeline", ()), outer=stage)
    elif isinstance(value, dict):
        for name, each in value.items():
            _check(each, stage) if isinstance(name, str) else _refuse(
                f"a dict with a key of type {type(name).__name__}", stage
            )
    elif isinstance(value, list | tuple):
        for each in value:
            _check(each, stage)
    elif not isinstance(value, str | int | float | None):
        _refuse(f"a value of type {type(value).__name__}", stage)


def _refuse(what: str, stage: Any) -> None:
    raise StageError(
        f"the stage saved {what}, which is not JSON",
        Where(stage=f"{shown(stage):.100}"),
        hint=_HINT,
    )
