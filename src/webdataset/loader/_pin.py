"""Batches in memory that a device can copy from by itself, while the program goes on."""

from __future__ import annotations

from typing import Any

import numpy as np


def pinned(value: Any) -> Any:
    """The value with its tensors and arrays in pinned memory, as tensors; as it is where there is no device.

    >>> pinned({"x": [1, 2]})
    {'x': [1, 2]}

    `batch["x"].to(device, non_blocking=True)` then returns at once.
    """
    import torch

    return _pinned(value, torch) if torch.cuda.is_available() else value


def _pinned(value: Any, torch: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return torch.from_numpy(value).pin_memory()
    if isinstance(value, torch.Tensor):
        return value.pin_memory()
    if isinstance(value, dict):
        return {name: _pinned(part, torch) for name, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_pinned(part, torch) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_pinned(part, torch) for part in value)
    return value
