"""A record of the keys of all samples."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from webdataset.describe import Described
from webdataset.errors import SpecError
from webdataset.flow import Pass, Resumable

from ._buffers import Counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webdataset.world import World


class Numbered(Counted):
    """How many samples were logged, and by which process."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world


@dataclass(frozen=True, repr=False)
class LogKeys(Described, Resumable):
    r"""Append a line for every sample to a file: number, worker, rank and key, separated by tabs.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = pathlib.Path(folder, "keys")
    ...     _ = list(LogKeys(log)([{"__key__": "a"}, {"__key__": "b"}]))
    ...     log.read_text()
    '0\t0\t0\ta\n1\t0\t0\tb\n'

    Processes may share the file: each line is one append. Without a file samples just pass.
    """

    verb: ClassVar[str] = "log_keys"
    keeps_count: ClassVar[bool] = True
    logfile: str | Path | None = None

    def __post_init__(self) -> None:
        if self.logfile is not None and not isinstance(self.logfile, str | os.PathLike):
            raise SpecError(f"log_keys({self.logfile!r}): give the name of a file, or None")

    def start(self, during: Pass) -> Numbered:
        """Nothing logged."""
        return Numbered(during.world)

    def run(self, items: Iterator[Any], at: Numbered, /) -> Iterator[Any]:
        """Log, then yield."""
        if not self.logfile:
            yield from items
            return
        # Unbuffered, in append mode: the kernel puts each line at the end whole, even if other processes write.
        with open(self.logfile, "ab", buffering=0) as log:  # noqa: PTH123 – logfile may be a str
            for item in items:
                log.write(self._line(item, at))
                at.taken += 1
                yield item

    @staticmethod
    def _line(item: Any, at: Numbered) -> bytes:
        known = item if isinstance(item, dict) else {}
        who = (known.get("__worker__", at.world.worker), known.get("__rank__", at.world.rank))
        return "{}\t{}\t{}\t{}\n".format(at.taken, *who, known.get("__key__")).encode()
