"""One function per field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from webdataset.arguments import require_callable
from webdataset.describe import Described
from webdataset.errors import SpecError
from webdataset.flow import Pass, PerItem
from webdataset.handlers import Handler, reraise_exception

from ._ask_handler import guarded
from ._field_names import getfirst


@dataclass(frozen=True, repr=False, init=False)
class MapDict(Described, PerItem):
    """Replace the named fields of a sample by the results of their functions, in place.

    >>> list(MapDict(cls=int)([{"__key__": "a", "cls": b"3"}]))
    [{'__key__': 'a', 'cls': 3}]

    A sample without the field is a `FieldNotFound`, which the handler sees. When one function fails, the sample stays
    as it was. Fields whose names are no identifiers: `map_dict(**{"left.png": f})`.
    """

    verb: ClassVar[str] = "map_dict"
    needs_fields: ClassVar[bool] = True
    kwargs_field: ClassVar[str] = "functions"
    functions: dict[str, Callable[[Any], Any]]
    handler: Handler = reraise_exception

    def __init__(self, /, handler: Handler = reraise_exception, **kw: Callable[[Any], Any]) -> None:
        if not kw:
            raise SpecError("map_dict() was given no fields", hint="name them: map_dict(jpg=f)")
        require_callable("map_dict", handler=handler, **kw)
        self._set(functions=kw, handler=handler)

    def __hash__(self) -> int:
        return hash((*self.functions.items(), self.handler))

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The same sample with new values."""
        functions = list(self.functions.items())

        def map_dict(sample: Any) -> Any:
            try:
                sample.update([(field, function(sample[field])) for field, function in functions])
            except KeyError:
                missing = [field for field in self.functions if field not in sample]
                if not missing:  # the function raised it
                    raise
            else:
                return sample
            return getfirst(sample, missing)  # raises the error for a field that is missing

        return guarded(map_dict, self, self.handler, during)
