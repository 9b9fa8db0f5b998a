"""How a dataset is pickled for a process that is spawned: with the functions that such a process cannot import.

A forked worker inherits everything. A spawned worker (or one from a fork server, as on Linux since Python 3.14)
receives the dataset by pickle, which sends functions by their names: that fails for lambdas, functions inside
functions, and functions of a program without a file, as in a notebook. cloudpickle sends these by their code. All that
can be imported is still sent by name, also functions and classes of the program: so a worker's results have the types
of the parent.
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
    """A base for objects that worker processes receive: pickled with their functions while a process is spawned.

    >>> import pickle
    >>> class Value(SpawnPickling):
    ...     pass
    >>> pickle.loads(pickle.dumps(SpawnPickling())).__class__.__name__
    'SpawnPickling'
    """

    def __reduce_ex__(self, protocol: Any, /) -> Any:
        # Not at the top: this import takes 3 ms, and a process that spawns others has done it already.
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
    """Check that the program has a file: a spawned process begins by importing it.

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
    """Pickle a value: functions by names where that is possible, else by their code."""
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
        """Pickles functions by name or by code, and pipes and tensors by the reducers of multiprocessing."""

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
