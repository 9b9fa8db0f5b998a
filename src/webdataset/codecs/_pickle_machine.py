"""The interpreter of pickles: every opcode of protocols 0 to 5 that harmless values need, and no other.

Python's own unpickler cannot be used for untrusted data, even with a list of allowed names: it lets a pickle set the
state of NumPy's types, fill the memo up to any index, and hash values whose hash takes very long. Here each opcode is
one entry of a table. A table of makers (`_pickle_globals`) replaces calls and checks their arguments, and what is built
is counted (`_pickle_budget`).
"""

from __future__ import annotations

import pickle
import struct
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from webdataset.errors import FormatError, UnsafeContent

from ._pickle_budget import Budget
from ._pickle_scalars import I4, U1, U4, U8, Scalars

if TYPE_CHECKING:
    from ._pickle_globals import Names
    from ._torch_storages import StorageNames

# Bytes that Python takes for an empty container or an entry of the memo, about.
_CONTAINER, _SET, _ENTRY, _ITEM = 64, 216, 100, 8
_MEMO_STEP = 1024  # entries of the memo are counted so many at a time
_LISTS = (list, deque)
_DICTS = (dict, OrderedDict, defaultdict)


class Unbuilt:
    """A value whose state follows in the pickle: NumPy's arrays and dtypes are made when their state is known."""

    __slots__ = ("slots",)

    def __init__(self) -> None:
        self.slots: list[int] = []  # the numbers of its entries in the memo

    def build(self, state: Any, budget: Budget) -> Any:
        """The value."""
        raise NotImplementedError


class Machine(Scalars):
    """Runs one pickle.

    >>> from ._pickle_budget import Budget
    >>> from ._pickle_globals import Names
    >>> data = pickle.dumps({"a": [1, 2.5, None]})
    >>> Machine(data, Names(), Budget(len(data))).run()
    {'a': [1, 2.5, None]}

    Args:
        data: the pickle.
        names: the names that it may refer to, call and build.
        budget: how much it may build.
        encoding: of text that Python 2 wrote.
    """

    def __init__(self, data: bytes, names: Names | StorageNames, budget: Budget, encoding: str = "ASCII") -> None:
        super().__init__(data, encoding)
        self._names, self._budget = names, budget
        self._outer: list[list[Any]] = []  # the stacks below the marks
        self._memo: dict[int, Any] = {}
        self._unbuilt = 0

    @property
    def end(self) -> int:
        """Where the pickle ends, after it has been run."""
        return self._position + 1

    def run(self) -> Any:
        """The value."""
        data, steps, stop = self._data, _STEPS, pickle.STOP[0]
        try:
            while (code := data[self._position]) != stop:
                self._position += 1
                steps[code](self)
            value = self._stack.pop()
        except (IndexError, struct.error) as error:
            raise FormatError(f"the pickle is truncated or malformed at byte {self._position}") from error
        if self._unbuilt:
            raise UnsafeContent("the pickle uses an array or dtype that it does not finish")
        return value

    def _marked(self) -> list[Any]:
        """The items above the last mark."""
        items = self._stack
        self._stack = self._outer.pop()
        return items

    # Opcodes: structure.

    def _unknown(self) -> None:
        code = self._data[self._position - 1]
        raise UnsafeContent(f"the pickle uses opcode {code:#04x} at byte {self._position - 1}, which is not supported")

    def _persistent(self) -> None:
        """A reference to an object outside of the pickle, which occurs only in torch's own files."""
        self._unknown()

    def _proto(self) -> None:
        version = self._number(U1)
        if version > pickle.HIGHEST_PROTOCOL:
            raise FormatError(f"expected a pickle of protocol 0 to {pickle.HIGHEST_PROTOCOL}, got {version}")

    def _frame(self) -> None:
        self._position += U8.size  # the size of a frame is needed only for reading from a file

    def _mark(self) -> None:
        self._budget.spend(_CONTAINER)
        self._outer.append(self._stack)
        self._stack = []

    def _pop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._marked()

    def _finished(self, value: Any) -> Any:
        if isinstance(value, Unbuilt):
            raise UnsafeContent("the pickle refers to an array or dtype before it is complete")
        return value

    # Opcodes: memo.

    def _remember(self, number: int) -> None:
        if not len(self._memo) % _MEMO_STEP:
            self._budget.spend(_ENTRY * _MEMO_STEP)
        value = self._memo[number] = self._stack[-1]
        if isinstance(value, Unbuilt):
            value.slots.append(number)

    def _recall(self, number: int) -> None:
        if number not in self._memo:
            raise FormatError(f"the pickle refers to object {number}, which it does not contain")
        self._stack.append(self._finished(self._memo[number]))

    # Opcodes: containers.

    def _tuple(self) -> None:
        items = tuple(self._marked())
        self._stack.append(items)

    def _push_tuple(self, count: int) -> None:
        self._budget.spend(_CONTAINER)
        if len(self._stack) < count:
            raise IndexError
        self._stack[-count:] = [tuple(self._stack[-count:])]

    def _begin(self, container: Any, size: int) -> None:
        self._budget.spend(size)
        self._stack.append(container)

    def _list(self) -> None:
        items = self._marked()
        self._stack.append(items)

    def _append(self) -> None:
        self._extend([self._stack.pop()])

    def _appends(self) -> None:
        self._extend(self._marked())

    def _extend(self, items: list[Any]) -> None:
        target = self._top(_LISTS)
        if type(target) is deque:
            self._budget.nest(target, items)
        target.extend(items)

    def _dict(self) -> None:
        items = self._marked()
        self._stack.append({})
        self._fill(items)

    def _setitem(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._fill([key, value])

    def _fill(self, items: list[Any]) -> None:
        target = self._top(_DICTS)
        if len(items) % 2:
            raise FormatError("the pickle has a key without a value")
        keys, values = items[::2], items[1::2]
        if any(type(key) is not str for key in keys):
            self._budget.admit_keys(target, keys)
        if type(target) is defaultdict:
            self._budget.nest(target, values)
        for key, value in zip(keys, values, strict=True):
            target[key] = value

    def _additems(self) -> None:
        items = self._marked()
        target = self._top((set,))
        self._budget.admit_keys(target, items)
        target.update(items)

    def _frozenset(self) -> None:
        items = self._marked()
        self._stack.append(self._names.call(frozenset, (items,), self._budget))

    def _top(self, kinds: tuple[type, ...]) -> Any:
        target = self._stack[-1]
        if type(target) not in kinds and not self._names.is_trusted(type(target)):
            raise FormatError(f"the pickle adds items to a value of type {type(target).__name__}")
        return target

    # Opcodes: names, calls and state.

    def _global(self) -> None:
        module, name = self._line().decode("utf-8"), self._line().decode("utf-8")
        self._stack.append(self._names.find(module, name))

    def _stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if type(name) is not str or type(module) is not str:
            raise FormatError("the pickle has a name that is not text")
        self._stack.append(self._names.find(module, name))

    def _reduce(self) -> None:
        args, function = self._stack.pop(), self._stack.pop()
        self._push_made(self._names.call(function, args, self._budget))

    def _newobj(self) -> None:
        args, kind = self._stack.pop(), self._stack.pop()
        self._push_made(self._names.new(kind, args, {}, self._budget))

    def _newobj_ex(self) -> None:
        kwargs, args, kind = self._stack.pop(), self._stack.pop(), self._stack.pop()
        self._push_made(self._names.new(kind, args, kwargs, self._budget))

    def _push_made(self, value: Any) -> None:
        self._unbuilt += isinstance(value, Unbuilt)
        self._stack.append(value)

    def _build(self) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if not isinstance(target, Unbuilt):
            self._names.set_state(target, state, self._budget)
            return
        self._budget.spend(_ENTRY)
        self._unbuilt -= 1
        built = self._stack[-1] = target.build(state, self._budget)
        for number in target.slots:
            if self._memo[number] is target:
                self._memo[number] = built

    # Each opcode that is allowed, and what it does.
    _ALLOWED: ClassVar[dict[bytes, Callable[[Machine], object]]] = {
        pickle.PROTO: _proto,
        pickle.FRAME: _frame,
        pickle.MARK: _mark,
        pickle.POP: _pop,
        pickle.POP_MARK: _marked,
        pickle.DUP: lambda self: self._stack.append(self._finished(self._stack[-1])),
        # The memo.
        pickle.PUT: lambda self: self._remember(int(self._line())),
        pickle.BINPUT: lambda self: self._remember(self._number(U1)),
        pickle.LONG_BINPUT: lambda self: self._remember(self._number(U4)),
        pickle.MEMOIZE: lambda self: self._remember(len(self._memo)),
        pickle.GET: lambda self: self._recall(int(self._line())),
        pickle.BINGET: lambda self: self._recall(self._number(U1)),
        pickle.LONG_BINGET: lambda self: self._recall(self._number(U4)),
        # Constants and numbers.
        pickle.NONE: lambda self: self._stack.append(None),
        pickle.NEWTRUE: lambda self: self._stack.append(True),
        pickle.NEWFALSE: lambda self: self._stack.append(False),
        **dict.fromkeys((pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.BINFLOAT), Scalars._numbers),
        pickle.INT: Scalars._int,
        pickle.LONG: lambda self: self._stack.append(int(self._line().removesuffix(b"L"))),
        pickle.LONG1: lambda self: self._stack.append(int.from_bytes(self._sized(U1), "little", signed=True)),
        pickle.LONG4: lambda self: self._stack.append(int.from_bytes(self._sized(I4), "little", signed=True)),
        pickle.FLOAT: lambda self: self._stack.append(float(self._line())),
        # Texts and bytes.
        pickle.STRING: Scalars._string,
        pickle.BINSTRING: lambda self: self._stack.append(self._sized(I4).decode(self._encoding)),
        pickle.SHORT_BINSTRING: lambda self: self._stack.append(self._sized(U1).decode(self._encoding)),
        pickle.UNICODE: lambda self: self._stack.append(self._line().decode("raw-unicode-escape")),
        pickle.SHORT_BINUNICODE: Scalars._short_binunicode,
        pickle.BINUNICODE: lambda self: self._stack.append(self._sized(U4).decode("utf-8", "surrogatepass")),
        pickle.BINUNICODE8: lambda self: self._stack.append(self._sized(U8).decode("utf-8", "surrogatepass")),
        pickle.SHORT_BINBYTES: lambda self: self._stack.append(self._sized(U1)),
        pickle.BINBYTES: lambda self: self._stack.append(self._sized(U4)),
        pickle.BINBYTES8: lambda self: self._stack.append(self._sized(U8)),
        pickle.BYTEARRAY8: lambda self: self._stack.append(bytearray(self._sized(U8))),
        # Containers.
        pickle.EMPTY_TUPLE: lambda self: self._stack.append(()),
        pickle.TUPLE: _tuple,
        pickle.TUPLE1: lambda self: self._push_tuple(1),
        pickle.TUPLE2: lambda self: self._push_tuple(2),
        pickle.TUPLE3: lambda self: self._push_tuple(3),
        pickle.EMPTY_LIST: lambda self: self._begin([], _CONTAINER),
        pickle.LIST: _list,
        pickle.APPEND: _append,
        pickle.APPENDS: _appends,
        pickle.EMPTY_DICT: lambda self: self._begin({}, _CONTAINER),
        pickle.DICT: _dict,
        pickle.SETITEM: _setitem,
        pickle.SETITEMS: lambda self: self._fill(self._marked()),
        pickle.EMPTY_SET: lambda self: self._begin(set(), _SET),
        pickle.ADDITEMS: _additems,
        pickle.FROZENSET: _frozenset,
        # Names, calls and state.
        pickle.GLOBAL: _global,
        pickle.STACK_GLOBAL: _stack_global,
        pickle.REDUCE: _reduce,
        pickle.NEWOBJ: _newobj,
        pickle.NEWOBJ_EX: _newobj_ex,
        pickle.BUILD: _build,
        pickle.BINPERSID: lambda self: self._persistent(),
    }


# By the number of an opcode, as the loop needs them.
_STEPS = [Machine._ALLOWED.get(bytes((code,)), Machine._unknown) for code in range(256)]
