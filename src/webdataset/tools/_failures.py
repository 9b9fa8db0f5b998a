"""Samples that a stage left out or kept unchanged because its work on them failed, for the report.

A stage runs in a worker process or in this one, so it cannot hold the list itself: whoever runs it collects.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from webdataset.errors import SpecError

from ._report import Failure

SAMPLE_ERRORS = ("stop", "skip", "keep")

_found: ContextVar[list[Failure] | None] = ContextVar("failures", default=None)


@contextmanager
def collect_failures() -> Iterator[list[Failure]]:
    """The failures that stages note inside.

    >>> with collect_failures() as failures:
    ...     note_failure("0001", ValueError("not a number"))
    >>> failures
    [Failure(item='0001', error='not a number')]
    """
    failures: list[Failure] = []
    token = _found.set(failures)
    try:
        yield failures
    finally:
        _found.reset(token)


def note_failure(item: str, error: Exception) -> None:
    """Put a failure into the report of whoever runs this stage."""
    failures = _found.get()
    if failures is not None:
        failures.append(Failure(item, " ".join(str(error).split()) or type(error).__name__))


def check_policy(policy: str) -> None:
    """Refuse what is no policy for samples that fail.

    >>> check_policy("ignore")
    Traceback (most recent call last):
    webdataset.errors.SpecError: a failed sample cannot be treated by 'ignore' – take one of stop, skip, keep
    """
    if policy not in SAMPLE_ERRORS:
        raise SpecError(
            f"a failed sample cannot be treated by {policy!r}", hint=f"take one of {', '.join(SAMPLE_ERRORS)}"
        )
