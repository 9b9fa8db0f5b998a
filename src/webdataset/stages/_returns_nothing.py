"""Whether a function can return anything but None: one without `return` would drop every sample without an error."""

from __future__ import annotations

import dis
import inspect
from typing import Any

_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def returns_nothing(function: Any) -> bool:
    """Whether a Python function can only return None, judged by its bytecode.

    >>> def forgotten(sample):
    ...     sample["n"] = 1
    >>> returns_nothing(forgotten), returns_nothing(lambda sample: sample), returns_nothing(len)
    (True, False, False)

    False if that is not known: for functions in C, callable objects, generators.
    """
    if inspect.ismethod(function):
        function = function.__func__
    if not inspect.isfunction(function) or function.__code__.co_flags & _LATER:
        return False
    returned, before = [], None
    for instruction in dis.get_instructions(function):
        if instruction.opname == "RETURN_CONST":
            returned.append(instruction.argval)
        elif instruction.opname == "RETURN_VALUE":
            is_constant = before is not None and before.opname == "LOAD_CONST" and not instruction.is_jump_target
            returned.append(before.argval if is_constant and before is not None else function)
        before = instruction
    return bool(returned) and all(value is None for value in returned)
