"""Some samples, printed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, TextIO

from webdataset.arguments import require_count
from webdataset.describe import Described
from webdataset.flow import Pass, PerItem


@dataclass(frozen=True, repr=False)
class Info(Described, PerItem):
    """Write the first `n` samples, and every `every`-th after them, to a stream; all samples pass unchanged.

    >>> list(Info(fmt="{__key__}: class {cls}", stream=sys.stdout)([{"__key__": "a", "cls": 3}]))
    a: class 3
    [{'__key__': 'a', 'cls': 3}]

    Args:
        fmt: a format string with field names; without it each field is written on a line of its own.
        n: how many of the first samples are shown.
        every: show every such sample; -1 for none.
        width: values are cut to that many characters.
        stream: standard error if not given.
        name: printed above each sample.
    """

    verb: ClassVar[str] = "info"
    fmt: str | None = None
    n: int = 3
    every: int = -1
    width: int = 50
    stream: TextIO | None = field(default=None, repr=False)
    name: str = ""

    def __post_init__(self) -> None:
        for argument in ("n", "every", "width"):
            require_count("info", argument, getattr(self, argument), least=-1)

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The same sample."""
        numbers = count()

        def show(sample: Any) -> Any:
            number = next(numbers)
            if number < self.n or (self.every > 0 and (number + 1) % self.every == 0):
                # `sys.stderr` is looked up now, so that a stage can be sent to a process with another one.
                (self.stream or sys.stderr).write(self._text(sample))
            return sample

        return show

    def _text(self, sample: Any) -> str:
        if self.fmt is not None:
            return (self.fmt.format(**sample) if isinstance(sample, dict) else self.fmt.format(*sample)) + "\n"
        fields = sample.items() if isinstance(sample, dict) else enumerate(sample if _is_row(sample) else [sample])
        lines = [f"{name} {repr(value)[: self.width]}" for name, value in fields]
        return "\n".join([f"--- {self.name}", *lines]) + "\n"


def _is_row(sample: Any) -> bool:
    return isinstance(sample, tuple | list)
