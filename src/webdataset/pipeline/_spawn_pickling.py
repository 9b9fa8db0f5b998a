"""Datasets on their way to a process that is spawned: with the functions that such a process cannot import.

A forked worker has everything. One that is spawned (or comes from a fork server, as on Linux since Python 3.14) gets
the dataset by pickle, which sends functions by their names: not lambdas, not functions inside functions, and not those
of a program that has no file, as in a notebook. cloudpickle sends these by their code. What can be imported still goes
by name, also the program's own functions and classes: so a worker's results have the types that the parent knows.
"""

from __future__ import annotations

import io
import sys
from collections import ChainMap
from contextvars import ContextVar
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar

from webdataset.errors import MissingDependency, SpecError

_inside: ContextVar[bool] = ContextVar("webdataset_spawning", default=False)  # an object that is being sent as a whole


class SpawnPickling:
    """A base for what is given to worker processes: pickled as usual, and with its functions while one is spawned.

    >>> import pickle
    >>> class Value(SpawnPickling):
    ...     pass
    >>> pickle.loads(pickle.dumps(SpawnPickling())).__class__.__name__
    'SpawnPickling'
    """

    def __reduce_ex__(self, protocol: Any, /) -> Any:
        # Not at the top: it takes 3 ms, and whoever spawns a process has loaded it.
        from multiprocessing.context import get_spawning_popen

        if get_spawning_popen() is None or _inside.get():
            return super().__reduce_ex__(protocol)
        check_program()
        token = _inside.set(True)
        try:
            return _load, (_dump(self),)
        finally:
            _inside.reset(token)


def check_program() -> None:
    """A spawned process begins by importing the program, which must have a file for that.

    Raises:
        SpecError: the program comes from standard input.
    """
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is not None and Path(path).name == "<stdin>":
        raise SpecError(
            "a program that is read from standard input cannot start worker processes: they have no file to import",
            hint="write the program to a file, or use workers='threads' or multiprocessing_context='fork'",
        )


def _dump(value: Any) -> bytes:
    """The value, pickled; by names where that is possible."""
    try:
        return _dump_by_name(value) if _has_file() else _dump_by_value(value)
    except SpecError:
        raise
    except Exception as error:  # pickle has no class of errors of its own: AttributeError, TypeError, PicklingError
        return _dump_by_value(value, error)


def _dump_by_name(value: Any) -> bytes:
    from multiprocessing.reduction import ForkingPickler

    return bytes(ForkingPickler.dumps(value))


def _dump_by_value(value: Any, because: Exception | None = None) -> bytes:
    try:
        import cloudpickle
    except ImportError as missing:
        if because is None:
            return _dump_by_name(value)
        why = f"to send this dataset to a worker process that is spawned ({because})"
        raise MissingDependency("cloudpickle", extra="torch", why=why) from missing

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
        """By name, by what multiprocessing knows (pipes, tensors), by code."""

        dispatch_table: ClassVar[Any] = ChainMap(_extra_reducers(), cloudpickle.Pickler.dispatch_table)

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, FunctionType | type) and _has_file() and _found_by_name(obj):
                return NotImplemented
            return super().reducer_override(obj)

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()


def _extra_reducers() -> Any:
    from multiprocessing.reduction import ForkingPickler

    return getattr(ForkingPickler, "_extra_reducers", {})


def _has_file() -> bool:
    """Whether a spawned process imports the program."""
    program = sys.modules["__main__"]
    return getattr(program, "__spec__", None) is not None or getattr(program, "__file__", None) is not None


def _found_by_name(obj: Any) -> bool:
    """Whether this is a function or class of the program itself, under its own name."""
    if getattr(obj, "__module__", None) != "__main__":
        return False
    found: Any = sys.modules["__main__"]
    for name in obj.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is obj


def _load(data: bytes) -> Any:
    import pickle

    return pickle.loads(data)  # noqa: S301 - written by the parent process
