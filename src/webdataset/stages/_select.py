"""Some of the samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from webdataset.arguments import require_callable
from webdataset.describe import Described
from webdataset.flow import DROP, Pass, PerItem
from webdataset.handlers import Handler, reraise_exception

from ._ask_handler import guarded


@dataclass(frozen=True, repr=False)
class Select(Described, PerItem):
    """Keep the samples for which `predicate` is true.

    >>> list(Select(lambda sample: sample["cls"] == 1)([{"cls": 0}, {"cls": 1}]))
    [{'cls': 1}]
    """

    verb: ClassVar[str] = "select"
    predicate: Callable[[Any], Any]
    handler: Handler = reraise_exception

    def __post_init__(self) -> None:
        require_callable("select", predicate=self.predicate, handler=self.handler)

    @property
    def may_drop(self) -> bool:
        """The function decides."""
        return True

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The item or `DROP`."""
        predicate = self.predicate

        def select(item: Any) -> Any:
            return item if predicate(item) else DROP

        return guarded(select, self, self.handler, during)
