"""The report of a verb that writes shards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self

from webdataset.address import in_use
from webdataset.arguments import require_choice
from webdataset.errors import WebDatasetError, add_where
from webdataset.handlers import Handler, reraise_exception
from webdataset.redact import hides_secrets, redacted

from ._read_inputs import Sample


@dataclass(frozen=True, slots=True)
class Failure:
    """One shard or sample that could not be processed, and why.

    >>> print(Failure("a.tar", "the archive is truncated"))
    a.tar: the archive is truncated
    """

    item: str
    error: str

    def __str__(self) -> str:
        return f"{redacted(self.item)}: {self.error}"

    @classmethod
    def of(cls, item: str, error: Exception) -> Self:
        """The failure for an exception, in one line."""
        return cls(item, redacted(" ".join(str(error).split())) or type(error).__name__)


@hides_secrets
@dataclass(frozen=True, slots=True)
class Report:
    """Counts of one run.

    >>> Report(samples_in=10, samples_out=9, done=2).complete
    True

    Attributes:
        samples_in: samples read in this run.
        samples_out: samples written in this run.
        bytes_out: bytes of the written samples' fields.
        done: shards written in this run.
        skipped: shards that an earlier run had finished.
        failed: shards or samples that could not be processed.
        outputs: the addresses of all written shards, in order.
        notes: further information for the user.
    """

    samples_in: int = 0
    samples_out: int = 0
    bytes_out: int = 0
    done: int = 0
    skipped: int = 0
    failed: tuple[Failure, ...] = ()
    outputs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", tuple(in_use(self.outputs)))  # addresses, whose repr has no secrets

    @property
    def complete(self) -> bool:
        """Whether nothing failed."""
        return not self.failed


ERRORS = ("stop", "skip", "quarantine")
SAMPLE_ERRORS = ("stop", "skip", "keep")

_found: ContextVar[list[Failure] | None] = ContextVar("failures", default=None)


@contextmanager
def collect_failures() -> Iterator[list[Failure]]:
    """The failures that stages record inside the block.

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
    """Record a failure in the surrounding `collect_failures` block, if there is one."""
    failures = _found.get()
    if failures is not None:
        failures.append(Failure.of(item, error))


def failure_handler(errors: str) -> Handler:
    """The handler for inputs that cannot be read: "stop" raises the error, the others record it and continue."""
    require_choice("errors", errors, ERRORS)
    return reraise_exception if errors == "stop" else _note_unreadable


def _note_unreadable(error: Exception) -> bool:
    note_failure(error.where.shard or "input" if isinstance(error, WebDatasetError) else "input", error)
    return True


def settle_failure(sample: Sample, error: Exception, policy: str) -> list[Sample]:
    """Apply a policy to a sample whose processing failed: raise the error, drop the sample, or keep it unchanged."""
    if isinstance(error, WebDatasetError):
        add_where(error, key=sample["__key__"], shard=sample.get("__url__"))
    if policy == "stop":
        raise error
    note_failure(sample["__key__"], error)
    return [sample] if policy == "keep" else []
