"""Module attributes that are read and set like variables, and modules that can be called."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # `wds.gopen` and `wds.mix` as type checkers see them: modules that can be called
    from collections.abc import Sequence
    from os import PathLike

    from webdataset.pipeline import mix as mixed

    class _Gopen(ModuleType):
        def __call__(self, url: str | PathLike[str], mode: str = "rb", bufsize: int = 8192, **options: Any) -> Any: ...

    class _Mix(ModuleType):
        def __call__(
            self,
            sources: Sequence[tuple[Any, float]],
            *,
            exhausted: Literal["stop", "repeat", "drop"] = "stop",
            per_batch: int = 1,
            schedule: Sequence[tuple[int, Sequence[float]]] = (),
        ) -> mixed: ...

    gopen: _Gopen
    mix: _Mix


def make_live(module: str, **members: Any) -> None:
    """Add properties and methods to a module.

    >>> import sys, types
    >>> switch, sys.modules["lamp"] = {"on": False}, types.ModuleType("lamp")
    >>> make_live("lamp", lit=property(lambda _: switch["on"], lambda _, value: switch.update(on=value)))
    >>> sys.modules["lamp"].lit = True
    >>> switch, sys.modules.pop("lamp").lit
    ({'on': True}, True)
    """
    loaded = sys.modules[module]
    loaded.__class__ = type(type(loaded).__name__, (type(loaded),), members)


def make_callable(module: str, function: str) -> None:
    """Let a module be called like the function of the same name in it; it still pickles, by its name.

    >>> import sys, types
    >>> sys.modules["lamp"] = types.ModuleType("lamp")
    >>> sys.modules["lamp"].lamp = lambda colour: f"a {colour} lamp"
    >>> make_callable("lamp", "lamp")
    >>> sys.modules.pop("lamp")("red")
    'a red lamp'
    """

    def call(self: ModuleType, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, function)(*args, **kwargs)

    def reduce(self: ModuleType) -> tuple[Any, ...]:
        return importlib.import_module, (self.__name__,)

    make_live(module, __call__=call, __reduce__=reduce)
