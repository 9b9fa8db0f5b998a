"""The names that a pickled field may refer to, and the functions that are called for them.

A name means a type, or a `Function` that consists of its name alone. A call never reaches the type or function
itself: it reaches a maker from the table below, which accepts the arguments that real pickles pass and no others, and
counts what it builds. Classes that the user allows are called as Python would.
"""

from __future__ import annotations

import collections
import copyreg
import decimal
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable, Iterable
from typing import Any

from webdataset.address import Address, Birth, restored
from webdataset.errors import FormatError, UnsafeContent
from webdataset.flow import Drawn

from ._pickle_budget import Budget
from ._pickle_dates import DATE_MAKERS
from ._pickle_numpy import NUMPY_MAKERS, NUMPY_NAMES, NUMPY_TYPE_MAKERS
from ._pickle_torch import TORCH_MAKERS, find_torch_type
from ._torch_storages import STORAGES

_COLLECTION, _DEQUE, _ITEM = 216, 760, 64  # bytes of an empty set or dict, an empty deque, an item, about
_LONGEST_DECIMAL = 10_000
_FACTORIES = (bool, dict, float, frozenset, int, list, set, str, tuple)
_BASES = (object, dict, float, frozenset, int, list, set, str, tuple)


class Function(str):
    """A function that a pickle may call: only its name."""

    __slots__ = ()


def global_name(value: Any) -> str:
    """The name under which a pickle refers to a class or function.

    >>> global_name(collections.OrderedDict)
    'collections.OrderedDict'
    """
    return f"{value.__module__}.{value.__qualname__}"


def _make_bytes(budget: Budget, *args: Any) -> bytes:
    """Bytes as old protocols write them: the characters of a latin-1 text, or nothing."""
    match args:
        case ():
            return b""
        case (str(text), "latin1" | "latin-1"):
            budget.spend(len(text))
            return text.encode("latin-1")
    raise UnsafeContent("the pickle calls a codec other than latin-1")


def _make_bytearray(budget: Budget, *args: Any) -> bytearray:
    match args:
        case (bytes(data),):
            budget.spend(len(data))
            return bytearray(data)
    return bytearray(_make_bytes(budget, *args))


def _make_numbers(kind: Any) -> Callable[..., Any]:
    """A type that takes integers, floats and None, and whose values are of constant size."""

    def make(budget: Budget, *args: Any) -> Any:
        if not all(type(each) in {int, float, type(None)} for each in args):
            raise UnsafeContent(f"the pickle makes a {kind.__name__} of something other than numbers")
        return kind(*args)

    return make


def _make_collection(kind: Any) -> Callable[..., Any]:
    """A collection, empty or of the items of a list."""

    def make(budget: Budget, *args: Any) -> Any:
        items = _items(budget, args)
        if issubclass(kind, set | frozenset):
            budget.admit_keys(kind(), items)
        return kind(items)

    return make


def _make_mapping(kind: Any) -> Callable[..., Any]:
    """A mapping, empty or of another dict, or of a list of pairs."""

    def make(budget: Budget, *args: Any) -> Any:
        if len(args) == 1 and type(args[0]) is dict:
            budget.spend(_COLLECTION + _ITEM * len(args[0]))
            return kind(args[0])
        pairs = _items(budget, args)
        if not all(type(pair) in {list, tuple} and len(pair) == 2 for pair in pairs):
            raise UnsafeContent(f"the pickle makes a {kind.__name__} of something other than pairs")
        budget.admit_keys({}, [key for key, _ in pairs])
        return kind(pairs)

    return make


def _make_counter(budget: Budget, *args: Any) -> Any:
    if args and type(args[0]) is not dict:  # it would count, and so hash, any items
        raise UnsafeContent("the pickle makes a Counter of something other than a dict")
    return _make_mapping(collections.Counter)(budget, *args)


def _items(budget: Budget, args: Any) -> list[Any] | tuple[Any, ...]:
    match args:
        case () | (list() | tuple(),) if not args or type(args[0]) in {list, tuple}:
            items: list[Any] | tuple[Any, ...] = args[0] if args else ()
            budget.spend(_COLLECTION + _ITEM * len(items))
            return items
    raise UnsafeContent("the pickle makes a collection of something other than a list")


def _make_defaultdict(budget: Budget, *args: Any) -> Any:
    budget.spend(_COLLECTION)
    match args:
        case () | (None,):
            return collections.defaultdict()
        case (type() as factory,) if factory in _FACTORIES:
            return collections.defaultdict(factory)
    raise UnsafeContent("the pickle makes a defaultdict with an unusual factory")


def _make_deque(budget: Budget, *args: Any) -> Any:
    *listed, limit = args if len(args) == 2 else (*args, None)
    if limit is not None and (type(limit) is not int or limit < 0):
        raise UnsafeContent("the pickle makes a deque with an unusual length")
    items = _items(budget, tuple(listed))
    budget.spend(_DEQUE)
    made = collections.deque(items, limit)
    budget.nest(made, items)
    return made


def _make_decimal(budget: Budget, *args: Any) -> decimal.Decimal:
    match args:
        case (str(text),) if len(text) <= _LONGEST_DECIMAL:
            return decimal.Decimal(text)
    raise UnsafeContent("the pickle makes a Decimal of something other than its digits")


def _make_drawn(budget: Budget, *args: Any) -> Drawn:
    """The shard that a sample was drawn from, as part of a recorded run."""
    match args:
        case (str(text), int(draw)):
            return Drawn(text, draw)
    raise UnsafeContent("the pickle makes an address of something other than text and a number")


def _make_address(budget: Budget, *args: Any) -> Address:
    """An address that was recorded with a sample: marked as read from data, whatever the pickle states."""
    match args:
        case (str(text), str(), str(), *_):
            return Address(text, Birth.CONTENT)
    raise UnsafeContent("the pickle makes an address of something other than text")


_TYPE_MAKERS: dict[Any, Callable[..., Any]] = {
    **{kind: _make_numbers(kind) for kind in (complex, range, slice)},
    **{kind: _make_collection(kind) for kind in (frozenset, list, set, tuple)},
    **{kind: _make_mapping(kind) for kind in (dict, collections.OrderedDict)},
    bytes: _make_bytes,
    bytearray: _make_bytearray,
    collections.Counter: _make_counter,
    collections.defaultdict: _make_defaultdict,
    collections.deque: _make_deque,
    decimal.Decimal: _make_decimal,
    Drawn: _make_drawn,
    **DATE_MAKERS,
    **NUMPY_TYPE_MAKERS,
}
_FUNCTION_MAKERS: dict[str, Callable[..., Any]] = {
    "_codecs.encode": _make_bytes,
    global_name(restored): _make_address,
    **TORCH_MAKERS,
    **NUMPY_MAKERS,
}
_RECONSTRUCTOR = Function("copyreg._reconstructor")

_MAKERS: dict[Any, Callable[..., Any]] = {
    **_TYPE_MAKERS,
    **{Function(name): make for name, make in _FUNCTION_MAKERS.items()},
}
_ALLOWED: dict[str, Any] = {
    **{global_name(kind): kind for kind in (*_TYPE_MAKERS, bool, float, int, object, str)},
    **{name: Function(name) for name in (*_FUNCTION_MAKERS, *STORAGES)},
    "copyreg._reconstructor": _RECONSTRUCTOR,
    **NUMPY_NAMES,
}


class Names:
    """The names that one pickle may refer to, call and build.

    >>> Names().find("os", "system")
    Traceback (most recent call last):
    webdataset.errors.UnsafeContent: the pickle refers to os.system, which is not on the list of harmless names – ...

    Args:
        trusted: classes and functions that the user allows as well.
    """

    hint = "if you trust the data: decode(wds.unsafe_pickle), or name the class with wds.PickleLoader(…)"

    def __init__(self, trusted: Iterable[Any] = ()) -> None:
        self._trusted: dict[str, Any] = {global_name(each): each for each in trusted}

    def find(self, module: str, name: str) -> Any:
        """The type or function of a name."""
        # Protocols 0 to 2 use the names of Python 2.
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        whole = f"{module}.{name}"
        for found in (self._trusted.get(whole), _ALLOWED.get(whole), find_torch_type(whole)):
            if found is not None:
                return found
        message = f"the pickle refers to {whole:.200}, which is not on the list of harmless names"
        raise UnsafeContent(message, hint=self.hint)

    def is_trusted(self, value: Any) -> bool:
        """Whether the user allows this class or function."""
        return any(value is each for each in self._trusted.values())

    def call(self, function: Any, args: Any, budget: Budget) -> Any:
        """Call the maker for a type or function, or the function itself if the user allows it."""
        if type(args) is not tuple:
            raise FormatError("the pickle calls a function without a tuple of arguments")
        if self.is_trusted(function):
            return function(*args)
        if function is _RECONSTRUCTOR:
            return self._reconstruct(*args)
        make = _MAKERS.get(function) if isinstance(function, type | Function) else None
        if make is None:
            # Not its repr: that of nested tuples may be extremely long.
            name = global_name(function) if isinstance(function, type) else type(function).__name__
            raise UnsafeContent(f"the pickle calls {name}, which harmless pickles do not call")
        return make(budget, *args)

    def new(self, kind: Any, args: Any, kwargs: Any, budget: Budget) -> Any:
        """An instance, made by `kind.__new__`."""
        if not self.is_trusted(kind):
            return self.call(kind, args, budget)
        if not isinstance(kind, type) or type(args) is not tuple or type(kwargs) is not dict:
            raise FormatError("the pickle makes an instance of something other than a class")
        return kind.__new__(kind, *args, **kwargs)

    def set_state(self, target: Any, state: Any, budget: Budget) -> None:
        """Give an instance of an allowed class its state; the state of an OrderedDict is its attributes."""
        if type(target) is collections.OrderedDict and type(state) is dict and all(type(name) is str for name in state):
            budget.spend(_ITEM * len(state))
            vars(target).update(state)
            return
        if not self.is_trusted(type(target)):
            raise UnsafeContent(f"the pickle sets the state of a value of type {type(target).__name__}")
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
            return
        values, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        vars(target).update(values or {})
        for name, value in (slots or {}).items():
            setattr(target, name, value)

    def _reconstruct(self, kind: Any, base: Any, state: Any) -> Any:
        """Make an instance of a class of the user, as protocols 0 and 1 do."""
        if not self.is_trusted(kind) or not any(base is each for each in _BASES):
            raise UnsafeContent("the pickle makes an instance in an unusual way")
        return copyreg._reconstructor(kind, base, state)  # type: ignore[attr-defined]  # typeshed lacks it
