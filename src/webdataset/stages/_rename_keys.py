"""Fields under other names, found by pattern."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, ClassVar

from webdataset.arguments import require_callable
from webdataset.describe import Described
from webdataset.errors import SpecError
from webdataset.flow import Pass, PerItem
from webdataset.handlers import Handler, reraise_exception

from ._ask_handler import guarded
from ._extract_keys import KNOWN_SHAPES


@dataclass(frozen=True, repr=False, init=False)
class RenameKeys(Described, PerItem):
    """Give the fields that match a pattern a new name.

    >>> list(RenameKeys(("image", "*.jpg"), label="cls")([{"__key__": "a", "Left.JPG": b"...", "cls": 3}]))
    [{'image': b'...', 'label': 3}]

    Patterns are compared with the part of a field name after the last slash, in lower case. Of several rules that match
    a field the last one counts.

    Args:
        args: pairs `(new name, shell pattern)`.
        keep_unselected: True keeps the fields that no rule matches; by default they are left out, the key too.
        must_match: False allows rules that match nothing.
        duplicate_is_error: False takes the first of several fields that would get the same name.
        handler: called when one of these conditions is not met.
        kw: `new="pattern"`, after `args`.
    """

    verb: ClassVar[str] = "rename_keys"
    needs_fields: ClassVar[bool] = True
    args_field: ClassVar[str] = "rules"
    rules: tuple[tuple[str, str], ...]
    keep_unselected: bool = False
    must_match: bool = True
    duplicate_is_error: bool = True
    handler: Handler = field(default=reraise_exception, repr=False)

    def __init__(
        self,
        *args: tuple[str, str],
        keep_unselected: bool = False,
        must_match: bool = True,
        duplicate_is_error: bool = True,
        handler: Handler = reraise_exception,
        **kw: str,
    ) -> None:
        require_callable("rename_keys", handler=handler)
        rules = (*args, *kw.items())
        if not all(isinstance(rule, tuple | list) and len(rule) == 2 for rule in rules):
            raise SpecError(f"rename_keys{args}: expected pairs (new name, pattern)")
        self._set(
            rules=tuple((new, pattern) for new, pattern in rules),
            keep_unselected=keep_unselected,
            must_match=must_match,
            duplicate_is_error=duplicate_is_error,
            handler=handler,
        )

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """A new sample."""
        find = lru_cache(KNOWN_SHAPES)(self._find)

        def rename_keys(sample: Any) -> Any:
            return {new: sample[old] for new, old in find(tuple(sample)).items()}

        return guarded(rename_keys, self, self.handler, during)

    def _find(self, fields: tuple[str, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        used: set[str] = set()
        for old in fields:
            short = old.rsplit("/", 1)[-1].lower()
            matching = [(new, pattern) for new, pattern in self.rules if fnmatchcase(short, pattern)]
            used.update(pattern for _, pattern in matching)
            if not matching and not self.keep_unselected:
                continue
            name = matching[-1][0] if matching else old
            if name not in found:
                found[name] = old
            elif self.duplicate_is_error:
                raise ValueError(f"Duplicate value in sample {list(fields)} after rename: {name!r}.")
        unused = [pattern for _, pattern in self.rules if pattern not in used]
        if unused and self.must_match:
            raise ValueError(f"Not all patterns matched sample keys {list(fields)}: nothing is like {unused}.")
        return found
