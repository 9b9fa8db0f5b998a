"""Fields found by pattern, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

# Samples of a dataset have the same few sets of fields over and over; each is matched once.
KNOWN_SHAPES = 1024


@dataclass(frozen=True, repr=False, init=False)
class ExtractKeys(Described, PerItem):
    """Turn samples into tuples of the fields that match the patterns.

    >>> list(ExtractKeys("*.jpg;*.png", "cls")([{"__key__": "a", "left.png": b"...", "cls": 3}]))
    [(b'...', 3)]

    Args:
        patterns: shell patterns, compared with `field` and with `.field`; `"a;b"` or `["a", "b"]` for alternatives.
        duplicate_is_error: False takes the first of several fields that match.
        ignore_missing: True leaves out what is not there, which makes the tuple shorter.
        handler: called when a field is missing or not unique.
    """

    verb: ClassVar[str] = "extract_keys"
    needs_fields: ClassVar[bool] = True
    args_field: ClassVar[str] = "patterns"
    patterns: tuple[str | Sequence[str], ...]
    duplicate_is_error: bool = True
    ignore_missing: bool = False
    handler: Handler = field(default=reraise_exception, repr=False)

    def __init__(
        self,
        *patterns: str | Sequence[str],
        duplicate_is_error: bool = True,
        ignore_missing: bool = False,
        handler: Handler = reraise_exception,
    ) -> None:
        if not all(isinstance(pattern, str | list | tuple) for pattern in patterns):
            raise SpecError(f"extract_keys{patterns}: patterns must be strings or lists of strings")
        require_callable("extract_keys", handler=handler)
        self._set(
            patterns=patterns, duplicate_is_error=duplicate_is_error, ignore_missing=ignore_missing, handler=handler
        )

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The values of the fields that match."""
        find = lru_cache(KNOWN_SHAPES)(self._find)

        def extract_keys(sample: Any) -> Any:
            return tuple([sample[name] for name in find(tuple(sample))])

        return guarded(extract_keys, self, self.handler, during)

    def _find(self, fields: tuple[str, ...]) -> list[str]:
        found: list[str] = []
        for pattern in self.patterns:
            names = pattern.split(";") if isinstance(pattern, str) else list(pattern)
            matching = [each for each in fields if any(_matches(each, name) for name in names)]
            if not matching and not self.ignore_missing:
                raise ValueError(f"Cannot find {names} in sample keys {list(fields)}.")
            if len(matching) > 1 and self.duplicate_is_error:
                raise ValueError(f"Multiple sample keys {list(fields)} match {names}.")
            found += matching[:1]
        return found


def _matches(field: str, pattern: str) -> bool:
    return fnmatchcase(field, pattern) or fnmatchcase(f".{field}", pattern)
