"""Batches in pinned memory, from which a device copies while the program goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from webdataset.errors import StageError


def pinned(value: Any) -> Any:
    """Return the value with its tensors and arrays as tensors in pinned memory; unchanged where there is no device.

    >>> pinned({"x": [1, 2]})
    {'x': [1, 2]}

    `batch["x"].to(device, non_blocking=True)` then returns at once.
    """
    import torch

    return each_tensor(value, _pin) if torch.cuda.is_available() or kind_with_streams() is not None else value


def kind_with_streams() -> str | None:
    """Return the kind of the device of this machine that copies while it does other work, "cuda" or "xpu"; else None.

    >>> kind_with_streams() in {None, "cuda", "xpu", "hpu", "mtia", "privateuseone"}
    True
    """
    import torch

    if not hasattr(torch.Stream, "__enter__"):  # before torch 2.7 streams were not for devices of any kind
        return None
    found = torch.accelerator.current_accelerator(check_available=True)
    return None if found is None or found.type == "mps" else str(found.type)  # mps: one stream, and pins nothing


def each_tensor(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the value with `change` applied to its tensors, and to its arrays of numbers as tensors; else unchanged.

    >>> each_tensor({"x": (np.arange(3), "a")}, lambda tensor: tensor + 1)
    {'x': (tensor([1, 2, 3]), 'a')}
    """
    import torch

    return _walk(value, change, torch)


def _walk(value: Any, change: Callable[[Any], Any], torch: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return change(_tensor(value, torch))
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: _walk(part, change, torch) for name, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_walk(part, change, torch) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_walk(part, change, torch) for part in value)
    return value


def _tensor(array: np.ndarray[Any, Any], torch: Any) -> Any:
    """Return the array as a tensor: of the same memory, unless that is read-only or torch cannot represent it."""
    if not array.dtype.isnative or not array.flags.writeable or min(array.strides, default=0) < 0:
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    try:
        return torch.from_numpy(array)
    except TypeError as error:
        raise StageError(
            f"an array of {array.dtype} cannot be a tensor", hint="convert it in the dataset: .astype('float64')"
        ) from error


def _pin(tensor: Any) -> Any:
    return tensor.pin_memory() if tensor.device.type == "cpu" else tensor
