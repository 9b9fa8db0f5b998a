"""Pickled fields: the one place that unpickles what came out of a shard.

A pickle is a program. Here it may only build plain containers and scalars, dates, NumPy arrays and torch tensors, up
to a limit (`WDS_DECOMPRESS_LIMIT`); every other name that it refers to is refused. For a dataset that you trust, change
this for one pipeline with `decode(wds.unsafe_pickle)`, for some classes with
`decode(wds.handle_extension("pkl", wds.PickleLoader(MyClass)))`, for a process with
`config.safety.unsafe_pickle = True` or `WDS_UNSAFE_PICKLE=1`. Secure mode refuses all of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from webdataset.config import safety
from webdataset.errors import UnsafeContent

from ._pickle_budget import Budget
from ._pickle_globals import Names
from ._pickle_machine import Machine

PICKLE_EXTENSIONS = ("pkl", "pickle", "pyd")


def unpickle_loads(data: bytes, *, encoding: str = "ASCII") -> Any:
    r"""The value in a pickled field, built from harmless parts only.

    >>> unpickle_loads(pickle.dumps({"a": (1, 2.5, None)}))
    {'a': (1, 2.5, None)}
    >>> unpickle_loads(b"cos\nsystem\n(S'echo gotcha'\ntR.")
    Traceback (most recent call last):
    webdataset.errors.UnsafeContent: the pickle refers to os.system, which is not on the list of harmless names – ...

    Args:
        data: the pickle.
        encoding: how text of Python 2 is read; its arrays need "latin-1".
    """
    _refuse_in_secure_mode()
    if safety.unsafe_pickle:
        return pickle.loads(data, encoding=encoding)  # noqa: S301 - asked for, process-wide
    return _restricted_loads(data, encoding=encoding)


@dataclass(frozen=True, slots=True, init=False)
class PickleLoader:
    """A loader of pickled fields that also builds the classes you name.

    >>> from fractions import Fraction
    >>> loader = PickleLoader(Fraction)
    >>> loader(pickle.dumps([Fraction(1, 3)]))
    [Fraction(1, 3)]

    Use it as `decode(wds.handle_extension("pkl", wds.PickleLoader(MyClass)))`. A class that you name runs its own
    code when it is rebuilt; name only those whose constructor is harmless for any arguments.
    """

    allow: tuple[type | Callable[..., Any], ...]

    def __init__(self, *allow: type | Callable[..., Any]) -> None:
        object.__setattr__(self, "allow", allow)

    def __call__(self, data: bytes) -> Any:
        """The unpickled value."""
        _refuse_in_secure_mode()
        return _restricted_loads(data, self.allow)


def unsafe_pickle(key: str, data: bytes) -> Any:
    """A decoder that unpickles without limits: `decode(wds.unsafe_pickle)`, for data that you made yourself.

    >>> unsafe_pickle(".pkl", pickle.dumps(range(3)))
    range(0, 3)
    >>> unsafe_pickle(".txt", b"not mine") is None
    True
    """
    if key.rpartition(".")[2].lower() not in PICKLE_EXTENSIONS:
        return None
    _refuse_in_secure_mode()
    return pickle.loads(data)  # noqa: S301 - asked for by name


def pickle_dumps(value: Any) -> bytes:
    """The value as a pickle.

    >>> pickle.loads(pickle_dumps([1, 2]))
    [1, 2]
    """
    return pickle.dumps(value)


def _refuse_in_secure_mode() -> None:
    if safety.enforce:
        raise UnsafeContent("Unpickling is not allowed for security reasons when enforce_security is set")


def _restricted_loads(data: bytes, trusted: tuple[Any, ...] = (), encoding: str = "ASCII") -> Any:
    return Machine(bytes(data), Names(trusted), Budget(len(data)), encoding).run()
