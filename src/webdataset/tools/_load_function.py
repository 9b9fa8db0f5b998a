"""A function that a command line names: `module:function`, or `file.py:function`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from webdataset.errors import SpecError

_NAME = re.compile(r"([\w.]+|[^:]+\.py):(\w+)")


def names_function(text: str) -> bool:
    """Whether a text names a function in one of these forms; the address of a shard does not.

    >>> names_function("train:make_dataset"), names_function("data.py:make"), names_function("s3://b/a.tar")
    (True, True, False)
    """
    return _NAME.fullmatch(text) is not None


def load_function(text: str) -> Callable[..., Any]:
    """The function of this name; modules in the current folder are found too.

    >>> load_function("json:loads")("[1]")
    [1]
    """
    found = _NAME.fullmatch(text)
    if found is None:
        raise SpecError(f"{text!r} does not name a function", hint="write module:function or file.py:function")
    name, function = found[1], found[2]
    try:
        module = _load_file(Path(name)) if name.endswith(".py") else _load_module(name)
    except ImportError as error:
        raise SpecError(
            f"{text!r} cannot be imported: {error}", hint="run it where the module is, or give the file: data.py:make"
        ) from error
    loaded = getattr(module, function, None)
    if not callable(loaded):
        raise SpecError(f"{name} has no function {function!r}", hint="check the names")
    result: Callable[..., Any] = loaded
    return result


def _load_module(name: str) -> Any:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python -m` does
    return importlib.import_module(name)


def _load_file(path: Path) -> Any:
    if not os.path.exists(path):
        raise SpecError(f"{path} does not exist", hint="give the file that defines the function")
    loaded = sys.modules.get(path.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path.absolute()):
        return loaded  # each shard of a job loads its function
    found = importlib.util.spec_from_file_location(path.stem, path.absolute())
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module  # functions of it must be found again by their names
    found.loader.exec_module(module)
    return module
