"""A pipeline from the words of a command line: `module:function`, `file.py:function`, or shards with options."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from webdataset.errors import SpecError
from webdataset.pipeline import DataPipeline, WebDataset


def load_function(spec: str) -> Callable[..., Any] | None:
    """The function that `module:function` or `file.py:function` names; None if the text is something else."""
    found = re.fullmatch(r"([\w.]+|[^:]+\.py):(\w+)", spec)
    if found is None:
        return None
    name, function = found[1], found[2]
    try:
        module = _load_file(Path(name)) if name.endswith(".py") else _load_module(name)
    except ModuleNotFoundError as error:
        raise SpecError(
            f"{spec}: {error}", hint="run it where the module is, or give the file: data.py:make"
        ) from error
    made = getattr(module, function, None)
    if not callable(made):
        raise SpecError(f"{spec}: {name} has no function {function!r}", hint="it returns the pipeline to serve")
    result: Callable[..., Any] = made
    return result


def _load_module(name: str) -> Any:
    if "" not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)


def _load_file(path: Path) -> Any:
    if not os.path.exists(path):
        raise SpecError(f"{path} does not exist", hint="give the file that defines the function")
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module  # functions of it must be found again by their names
    found.loader.exec_module(module)
    return module


def shard_pipeline(
    urls: Sequence[str],
    *,
    batch: int = 0,
    decode: str | None = None,
    fields: Sequence[str] = (),
    **options: Any,
) -> DataPipeline:
    """The usual pipeline over shards.

    Args:
        urls: of shards that have an index.
        batch: samples in a batch; 0 serves samples.
        decode: how images are decoded, such as "rgb"; "" decodes everything but images.
        fields: what a sample is made of, in this order.
        options: what `WebDataset` takes.
    """
    dataset: Any = WebDataset(list(urls), **options)
    if decode is not None:
        dataset = dataset.decode(decode) if decode else dataset.decode()
    if fields:
        dataset = dataset.to_tuple(*fields)
    result: DataPipeline = dataset.batched(batch) if batch else dataset
    return result
