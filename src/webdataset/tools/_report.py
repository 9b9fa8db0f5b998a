"""What a verb that writes shards returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """One shard or sample that could not be processed, and why.

    >>> print(Failure("a.tar", "the archive is truncated"))
    a.tar: the archive is truncated
    """

    item: str
    error: str

    def __str__(self) -> str:
        return f"{self.item}: {self.error}"


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
        notes: what the user should know besides.
    """

    samples_in: int = 0
    samples_out: int = 0
    bytes_out: int = 0
    done: int = 0
    skipped: int = 0
    failed: tuple[Failure, ...] = ()
    outputs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing failed."""
        return not self.failed
