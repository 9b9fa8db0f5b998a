"""The interpreter of pickles: every opcode of protocols 0 to 5 that harmless values need, and no other.

Python's own unpickler cannot be used for data of strangers, even with a list of allowed names: it lets a pickle set
the state of NumPy's types, fill the memo up to any index, and hash what takes for ever to hash. Here each opcode is a
method of a few lines. Calls go through a table of makers (`_pickle_globals`), which check their arguments, and what is
built is counted (`_pickle_budget`).
"""

from __future__ import annotations

import pickle
import struct
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any, ClassVar

from webdataset.errors import FormatError, UnsafeContent

from ._pickle_scalars import U1, U4, U8, Scalars

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._pickle_budget import Budget
    from ._pickle_globals import Names

# Bytes that Python takes for an empty container or an entry of the memo, about.
_CONTAINER, _SET, _ENTRY, _ITEM = 64, 216, 100, 8
_MEMO_STEP = 1024  # entries of the memo are counted so many at a time
_LISTS = (list, deque)
_DICTS = (dict, OrderedDict, defaultdict)


class Unbuilt:
    """A value whose parts are still to come: NumPy's arrays and dtypes are made when their state is known."""

    __slots__ = ("slots",)

    def __init__(self) -> None:
        self.slots: list[int] = []  # where the memo refers to it

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
        names: what it may refer to, call and build.
        budget: what it may spend.
        encoding: of text that Python 2 wrote.
    """

    def __init__(self, data: bytes, names: Names, budget: Budget, encoding: str = "ASCII") -> None:
        super().__init__(data, encoding)
        self._names, self._budget = names, budget
        self._outer: list[list[Any]] = []  # the stacks below the marks
        self._memo: dict[int, Any] = {}
        self._unbuilt = 0

    def run(self) -> Any:
        """The value."""
        data, steps, stop = self._data, self._STEPS, pickle.STOP[0]
        try:
            while (code := data[self._at]) != stop:
                self._at += 1
                steps[code](self)
            value = self._stack.pop()
        except (IndexError, struct.error) as error:
            raise FormatError(f"the pickle is truncated or malformed at byte {self._at}") from error
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
        code = self._data[self._at - 1]
        raise UnsafeContent(f"the pickle uses opcode {code:#04x} at byte {self._at - 1}, which is not supported")

    def _proto(self) -> None:
        version = self._number(U1)
        if version > pickle.HIGHEST_PROTOCOL:
            raise FormatError(f"expected a pickle of protocol 0 to {pickle.HIGHEST_PROTOCOL}, got {version}")

    def _frame(self) -> None:
        self._at += U8.size  # frames help those who read from a file

    def _mark(self) -> None:
        self._budget.spend(_CONTAINER)
        self._outer.append(self._stack)
        self._stack = []

    def _pop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._marked()

    def _pop_mark(self) -> None:
        self._marked()

    def _dup(self) -> None:
        self._stack.append(self._finished(self._stack[-1]))

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

    def _put(self) -> None:
        self._remember(int(self._line()))

    def _binput(self) -> None:
        self._remember(self._number(U1))

    def _long_binput(self) -> None:
        self._remember(self._number(U4))

    def _memoize(self) -> None:
        self._remember(len(self._memo))

    def _recall(self, number: int) -> None:
        if number not in self._memo:
            raise FormatError(f"the pickle refers to object {number}, which it does not contain")
        self._stack.append(self._finished(self._memo[number]))

    def _get(self) -> None:
        self._recall(int(self._line()))

    def _binget(self) -> None:
        self._recall(self._number(U1))

    def _long_binget(self) -> None:
        self._recall(self._number(U4))

    # Opcodes: containers.

    def _empty_tuple(self) -> None:
        self._stack.append(())

    def _tuple(self) -> None:
        items = tuple(self._marked())
        self._stack.append(items)

    def _tuple1(self) -> None:
        self._fold(1)

    def _tuple2(self) -> None:
        self._fold(2)

    def _tuple3(self) -> None:
        self._fold(3)

    def _fold(self, count: int) -> None:
        self._budget.spend(_CONTAINER)
        if len(self._stack) < count:
            raise IndexError
        self._stack[-count:] = [tuple(self._stack[-count:])]

    def _empty_list(self) -> None:
        self._budget.spend(_CONTAINER)
        self._stack.append([])

    def _list(self) -> None:
        items = self._marked()
        self._stack.append(items)

    def _append(self) -> None:
        item = self._stack.pop()
        self._top(_LISTS).append(item)

    def _appends(self) -> None:
        items = self._marked()
        self._top(_LISTS).extend(items)

    def _empty_dict(self) -> None:
        self._budget.spend(_CONTAINER)
        self._stack.append({})

    def _dict(self) -> None:
        items = self._marked()
        self._stack.append({})
        self._fill(items)

    def _setitem(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._fill([key, value])

    def _setitems(self) -> None:
        self._fill(self._marked())

    def _fill(self, items: list[Any]) -> None:
        target = self._top(_DICTS)
        if len(items) % 2:
            raise FormatError("the pickle has a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) is not str:
                self._budget.admit_key(target, key)
            target[key] = value

    def _empty_set(self) -> None:
        self._budget.spend(_SET)
        self._stack.append(set())

    def _additems(self) -> None:
        items = self._marked()
        target = self._top((set,))
        for item in items:
            self._budget.admit_key(target, item)
            target.add(item)

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
            self._names.set_state(target, state)
            return
        self._budget.spend(_ENTRY)
        self._unbuilt -= 1
        built = self._stack[-1] = target.build(state, self._budget)
        for number in target.slots:
            if self._memo[number] is target:
                self._memo[number] = built

    _STEPS: ClassVar[list[Callable[[Machine], None]]] = [_unknown] * 256


def _find_steps() -> None:
    """Each opcode `pickle.NAME` is the method `_name`."""
    names = """PROTO FRAME MARK POP POP_MARK DUP PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET NONE NEWTRUE
        NEWFALSE INT LONG LONG1 LONG4 FLOAT STRING BINSTRING SHORT_BINSTRING UNICODE SHORT_BINUNICODE
        BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES BINBYTES8 BYTEARRAY8 EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3
        EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT DICT SETITEM SETITEMS EMPTY_SET ADDITEMS FROZENSET GLOBAL STACK_GLOBAL
        REDUCE NEWOBJ NEWOBJ_EX BUILD"""
    for name in names.split():
        Machine._STEPS[getattr(pickle, name)[0]] = getattr(Machine, f"_{name.lower()}")
    for code in (pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.BINFLOAT):
        Machine._STEPS[code[0]] = Machine._numbers


_find_steps()
