"""One function, applied to every sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from webdataset.arguments import require_callable
from webdataset.describe import Described
from webdataset.flow import DROP, Pass, PerItem
from webdataset.handlers import Handler, reraise_exception
from webdataset.redact import warn

from ._ask_handler import guarded
from ._returns_nothing import returns_nothing


@dataclass(frozen=True, repr=False)
class Map(Described, PerItem):
    """Apply `f` to every sample; a sample for which it returns None is left out.

    >>> list(Map(lambda sample: {"n": int(sample["txt"])})([{"__key__": "a", "txt": b"7"}]))
    [{'n': 7, '__key__': 'a'}]

    If a dict comes in with a `__key__` and a dict without one comes out, the key is carried over. A function may give
    the sample another key. Random augmentations that are the same for any number of workers draw from
    `wds.rng(sample)`.
    """

    verb: ClassVar[str] = "map"
    f: Callable[[Any], Any]
    handler: Handler = reraise_exception

    def __post_init__(self) -> None:
        require_callable("map", f=self.f, handler=self.handler)
        if returns_nothing(self.f):
            name = getattr(self.f, "__name__", "the function")
            warn(
                f"map({name}) leaves every sample out: the function returns None; end it with `return sample`",
                stacklevel=3,
            )

    @property
    def may_drop(self) -> bool:
        """The function decides."""
        return True

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The new item or `DROP`."""
        f = self.f

        def map_one(item: Any) -> Any:
            # The function may empty or change its sample, so the key is looked up before.
            key = item.get("__key__") if isinstance(item, dict) else None
            result = f(item)
            if result is None:
                return DROP
            if key is not None and isinstance(result, dict) and "__key__" not in result:
                result["__key__"] = key
            return result

        return guarded(map_one, self, self.handler, during)
