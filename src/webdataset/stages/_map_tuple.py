"""One function per position of a tuple."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from webdataset.arguments import require_callable
from webdataset.describe import Described
from webdataset.errors import SpecError
from webdataset.flow import Pass, PerItem
from webdataset.handlers import Handler, reraise_exception

from ._ask_handler import guarded


@dataclass(frozen=True, repr=False, init=False)
class MapTuple(Described, PerItem):
    """Apply the first function to the first value, the second to the second, …; None leaves a value as it is.

    >>> list(MapTuple(str.upper, None)([("a", 1), ("b", 2)]))
    [('A', 1), ('B', 2)]

    Values without a function stay, functions without a value are not used.
    """

    verb: ClassVar[str] = "map_tuple"
    args_field: ClassVar[str] = "args"
    args: tuple[Callable[[Any], Any] | None, ...]
    handler: Handler = reraise_exception

    def __init__(self, *args: Callable[[Any], Any] | None, handler: Handler = reraise_exception) -> None:
        for position, function in enumerate(args):
            if function is not None:
                require_callable("map_tuple", **{f"argument{position}": function})
        require_callable("map_tuple", handler=handler)
        self._set(args=args, handler=handler)

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The tuple of results."""
        positions = [(index, function) for index, function in enumerate(self.args) if function is not None]

        def map_tuple(item: Any) -> Any:
            if isinstance(item, dict):
                raise SpecError(
                    "map_tuple needs tuples and got a dict",
                    hint='add .to_tuple("jpg", "cls") before it, or use .map_dict(jpg=f)',
                )
            values = list(item)
            for index, function in positions:
                if index < len(values):
                    values[index] = function(values[index])
            return tuple(values)

        return guarded(map_tuple, self, self.handler, during)


def transform_with(sample: Any, transformers: Sequence[Callable[[Any], Any] | None] | None) -> Any:
    """Apply functions by position; None is identity.

    >>> transform_with((1, 2, 3), [str, None])
    ['1', 2, 3]
    """
    if not transformers:
        return sample
    if len(transformers) > len(sample):
        raise SpecError(f"{len(transformers)} transformers for {len(sample)} values", hint="give at most one per value")
    result = list(sample)
    for index, function in enumerate(transformers):
        if function is not None:
            result[index] = function(result[index])
    return result
