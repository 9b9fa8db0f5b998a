"""The names that a pickled field may ask for, and what they stand for here.

A pickle can call what it is given, and can set attributes on it (the BUILD opcode). So everything on the list is either
an immutable built-in type or a `Maker`: a function behind a wall that has no attributes to set and takes only
the arguments that real pickles use.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import io
from typing import TYPE_CHECKING, Any

from webdataset.address import Address, Birth, restored
from webdataset.errors import UnsafeContent
from webdataset.flow import Drawn

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_RANGE = 10**6


class Maker:
    """A function that a pickle may call and cannot change."""

    __slots__ = ("_make",)
    _make: Callable[..., Any]

    def __init__(self, make: Callable[..., Any]) -> None:
        object.__setattr__(self, "_make", make)

    def __call__(self, *args: Any) -> Any:
        return self._make(*args)

    def __setattr__(self, name: str, value: Any) -> None:
        raise UnsafeContent(f"the pickle tries to set {name!r} on a function")


def global_name(value: Any) -> str:
    """The name under which a pickle asks for a class or function.

    >>> global_name(collections.OrderedDict)
    'collections.OrderedDict'
    """
    return f"{value.__module__}.{value.__qualname__}"


def _make_bytes(*args: Any) -> bytes:
    """What old protocols write for bytes: the characters of a latin-1 text, or nothing."""
    if not args:
        return b""
    match args:
        case (str(text), "latin1" | "latin-1"):
            return text.encode("latin-1")
    raise UnsafeContent("the pickle calls a codec other than latin-1")


def _make_bytearray(*args: Any) -> bytearray:
    match args:
        case ():
            return bytearray()
        case (bytes(data),):
            return bytearray(data)
        case (str(text), "latin1" | "latin-1"):
            return bytearray(text, "latin-1")
    raise UnsafeContent("the pickle makes a bytearray out of something else than bytes")


def _make_range(*args: int) -> range:
    made = range(*args)
    # A list or set made of it would fill the memory out of forty bytes.
    if len(made) > _LONGEST_RANGE:
        raise UnsafeContent(f"the pickle holds a range of {len(made):,} numbers")
    return made


def _make_empty(kind: Any, base: Any, state: Any) -> Any:
    """What protocols 0 and 1 call to make an instance before its items are filled in."""
    if kind not in _TYPES or base not in {kind, object} or state is not None:
        raise UnsafeContent(f"the pickle makes an instance of {kind!r:.60} in an unusual way")
    return kind()


def _make_counter(*args: Any) -> Any:
    return collections.Counter(*args)


def _make_drawn(*args: Any) -> Drawn:
    """Where a sample was drawn from: what is recorded of a run holds it."""
    match args:
        case (str(text), int(draw)):
            return Drawn(text, draw)
    raise UnsafeContent("the pickle makes an address out of something else than text and a number")


def _make_address(*args: Any) -> Address:
    """An address that was recorded with a sample: read from data, whatever the pickle says about it."""
    match args:
        case (str(text), str(), str()):
            return Address(text, Birth.CONTENT)
    raise UnsafeContent("the pickle makes an address out of something else than text")


def _tensor(*args: Any) -> Any:
    from torch._utils import _rebuild_tensor_v2

    return _rebuild_tensor_v2(*args)


def _storage(data: bytes) -> Any:
    """Torch's own function for this runs `torch.load` without restrictions."""
    import torch

    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _size(sizes: Any = ()) -> Any:
    import torch

    return torch.Size(sizes)


def _parameter(*args: Any) -> Any:
    from torch._utils import _rebuild_parameter

    return _rebuild_parameter(*args)


_TYPES = (
    *(bool, complex, dict, float, frozenset, int, list, set, slice, tuple),
    *(collections.OrderedDict, collections.defaultdict, collections.deque),
    *(dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone, decimal.Decimal),
)

_MAKERS: dict[str, Callable[..., Any]] = {
    "builtins.bytes": _make_bytes,
    "builtins.bytearray": _make_bytearray,
    "builtins.range": _make_range,
    "builtins.xrange": _make_range,
    "_codecs.encode": _make_bytes,
    "collections.Counter": _make_counter,
    "copyreg._reconstructor": _make_empty,
    global_name(Drawn): _make_drawn,
    global_name(restored): _make_address,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch.storage._load_from_bytes": _storage,
    "torch.Size": _size,
}

ALLOWED: dict[str, Any] = {global_name(kind): kind for kind in _TYPES}
ALLOWED |= {name: Maker(make) for name, make in _MAKERS.items()}
# What protocols 0 to 2 call the same things.
ALLOWED |= {name.replace("builtins", "__builtin__"): found for name, found in ALLOWED.items()}
ALLOWED |= {"copy_reg._reconstructor": ALLOWED["copyreg._reconstructor"]}


def find_allowed(allowed: dict[str, Any], module: str, name: str) -> Any:
    """What the name stands for, if it is on the list."""
    found = allowed.get(f"{module}.{name}")
    if found is None:
        raise UnsafeContent(
            f"the pickle asks for {module}.{name}, which is not on the list of harmless names",
            hint="if you trust the data: decode(wds.unsafe_pickle), or name the class with wds.PickleLoader(…)",
        )
    return found
