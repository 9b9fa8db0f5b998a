"""Additional fields from a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from webdataset.arguments import require_callable
from webdataset.describe import Described, call
from webdataset.errors import SpecError
from webdataset.flow import Pass, PerItem
from webdataset.handlers import Handler, reraise_exception

from ._ask_handler import guarded


@dataclass(frozen=True, repr=False, eq=False)
class Associate(Described, PerItem):
    """Add the fields that a table or a function has for the key of a sample, in place.

    >>> labels = {"a": {"cls": 3}}
    >>> list(Associate(labels)([{"__key__": "a"}, {"__key__": "b"}]))
    [{'__key__': 'a', 'cls': 3}, {'__key__': 'b'}]
    """

    verb: ClassVar[str] = "associate"
    needs_fields: ClassVar[bool] = True
    # The table may have millions of rows, so it is not part of any text.
    associator: Mapping[str, Mapping[str, Any]] | Callable[[str], Mapping[str, Any] | None] = field(repr=False)
    handler: Handler = reraise_exception

    def __post_init__(self) -> None:
        require_callable("associate", handler=self.handler)
        if not callable(self.associator) and not hasattr(self.associator, "get"):
            raise SpecError(
                f"associate({self.associator!r}): neither a table nor a function",
                hint="give a dict from keys to dicts of fields, or a function of the key that returns one",
            )

    def __repr__(self) -> str:
        shown = self.associator if callable(self.associator) else type(self.associator)
        return call("associate", shown, **({} if self.handler is reraise_exception else {"handler": self.handler}))

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The same sample with more fields."""
        find = self.associator if callable(self.associator) else self.associator.get

        def associate(sample: Any) -> Any:
            found = find(sample["__key__"])
            if found is not None:
                sample.update(found)
            return sample

        return guarded(associate, self, self.handler, during)
