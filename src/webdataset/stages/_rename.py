"""Fields under other names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from webdataset.arguments import require_callable
from webdataset.describe import Described
from webdataset.flow import Pass, PerItem
from webdataset.handlers import Handler, reraise_exception

from ._ask_handler import guarded
from ._field_names import alternatives, getfirst


@dataclass(frozen=True, repr=False, init=False)
class Rename(Described, PerItem):
    """Give fields new names.

    >>> list(Rename(image="jpg;png")([{"__key__": "a", "png": b"...", "cls": 3}]))
    [{'__key__': 'a', 'cls': 3, 'image': b'...'}]

    Args:
        handler: called when none of the old names is there.
        keep: False leaves out all fields that were not renamed, the key too.
        kw: `new="old"`, or `new="old1;old2"` for the first of several.
    """

    verb: ClassVar[str] = "rename"
    needs_fields: ClassVar[bool] = True
    kwargs_field: ClassVar[str] = "renamed"
    renamed: dict[str, str]
    handler: Handler = reraise_exception
    keep: bool = True

    def __init__(self, /, handler: Handler = reraise_exception, keep: bool = True, **kw: str) -> None:
        require_callable("rename", handler=handler)
        for old in kw.values():
            alternatives(old)
        self._set(renamed=kw, handler=handler, keep=keep)

    def __hash__(self) -> int:
        return hash((*self.renamed.items(), self.handler, self.keep))

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """A new sample."""
        renamed = {new: alternatives(old) for new, old in self.renamed.items()}
        gone = {name for names in renamed.values() for name in names}
        keep = self.keep

        def rename(sample: Any) -> Any:
            result = {name: value for name, value in sample.items() if name not in gone} if keep else {}
            for new, names in renamed.items():
                result[new] = getfirst(sample, names)
            return result

        return guarded(rename, self, self.handler, during)
