"""What becomes of arrays that came over a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Converters = list[Callable[[Any], Any]]


def to_numpy(device: Any = None) -> Converters:
    """Arrays stay arrays."""
    return [np.asarray]


def to_torch(device: Any = None) -> Converters:
    """Tensors: images as channels × height × width, floats as float32, whole numbers of 16 bits and more as int64."""
    import torch

    def convert(array: Any) -> Any:
        array = array if isinstance(array, torch.Tensor) else torch.from_numpy(_signed(np.asarray(array)))
        if array.ndim in {3, 4} and array.shape[-1] in {3, 4}:
            array = array.movedim(-1, -3)
        if array.is_floating_point():
            array = array.float()
        elif array.dtype in {torch.int16, torch.int32}:
            array = array.long()
        return array if device is None else array.to(device)

    return [convert]


def to_cuda(device: Any = None) -> Converters:
    """The same on a GPU."""
    return to_torch("cuda" if device is None else device)


def _signed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Whole numbers with a sign: those without one have few operations in torch."""
    return array.astype(np.int64) if array.dtype in {np.dtype("u2"), np.dtype("u4"), np.dtype("u8")} else array


CONVERTERS = {"numpy": to_numpy, "torch": to_torch, "torch_cuda": to_cuda}
