"""How a batch is sent between processes: as a short message, and all its arrays side by side in one block.

The batch is pickled with its large buffers left out (PEP 574), whatever types it has; in the receiving process the
arrays and tensors are views of the block. So a batch of a hundred fields is one object in shared memory, and is copied
once; or not at all, if its arrays were allocated in the block.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from webdataset.errors import StageError

from ._shared_memory import Blocks, aligned, receive

_LEAST = 1024  # smaller buffers stay in the message
# A smaller message is as fast through the pipe as in a block (a Linux pipe holds 64 kB).
_LEAST_BLOCK = 1 << 16


@dataclass(slots=True)
class Transfer:
    """A packed value: the message, and where its buffers are."""

    message: bytes  # empty if the message is the last of the buffers
    spans: list[tuple[int, int]]  # start and length of each buffer
    buffers: Any  # the arguments of `receive` for the block that was sent; or the bytes themselves

    @property
    def size(self) -> int:
        """How many bytes are sent."""
        return len(self.message) + sum(length for _, length in self.spans)

    def unpack(self) -> Any:
        """Return the value and forget it. Its arrays are views; the block is free again when the last one is gone."""
        block, self.buffers = self.buffers, None
        views = [block[start : start + length] for start, length in self.spans]
        message = self.message or views.pop()
        return pickle.loads(message, buffers=views)  # noqa: S301  # from a process that we started ourselves

    def __reduce__(self) -> tuple[Callable[..., Transfer], tuple[Any, ...]]:
        return _received, (self.message, self.spans, self.buffers)


def _received(message: bytes, spans: list[tuple[int, int]], buffers: Any) -> Transfer:
    """Return the transfer with its block opened, now: the worker may close the block once it is marked as received."""
    if isinstance(buffers, tuple):
        return Transfer(message, spans, receive(*buffers))
    return Transfer(message, spans, np.frombuffer(buffers, np.uint8))


def pack(value: Any, blocks: Blocks | None) -> Transfer:
    """Pack a value; without blocks the buffers are part of the message.

    >>> blocks = Blocks(keep=2)
    >>> transfer = pack({"image": np.ones((64, 32, 32)), "label": 3}, blocks)
    >>> len(transfer.message) < 500
    True
    >>> batch = pickle.loads(pickle.dumps(transfer)).unpack()
    >>> batch["image"].sum(), batch["label"]
    (np.float64(65536.0), 3)
    """
    found: list[memoryview] = []
    message = _pickled(value, found)
    if blocks is not None and len(message) >= _LEAST_BLOCK:  # strings, bytes and other objects
        found.append(memoryview(message))
        message = b""
    size = sum(aligned(buffer.nbytes) for buffer in found)
    block = blocks.block_for(found, size) if blocks is not None and size >= _LEAST_BLOCK else None
    if blocks is None or block is None:
        spans, flat = [], bytearray()
        for buffer in found:
            spans.append((len(flat), buffer.nbytes))
            flat += buffer
            flat += bytes(aligned(len(flat)) - len(flat))
        return Transfer(message, spans, flat)
    spans = [(block.hold(buffer), buffer.nbytes) for buffer in found]
    return Transfer(message, spans, blocks.send(block, size))


def _pickled(value: Any, found: list[memoryview]) -> bytes:
    """Pickle a value, and collect its large buffers."""

    def leave_out(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LEAST:
            return True
        found.append(raw)
        return False

    out = io.BytesIO()
    try:
        _Pickler(out, protocol=5, buffer_callback=leave_out).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise StageError(
            f"an item of type {type(value).__name__} cannot be sent from a worker process: {error}",
            hint="yield arrays, tensors and plain values, or use workers='threads'",
        ) from error
    return out.getvalue()


class _Pickler(pickle.Pickler):
    """Pickles tensors, views and arrays that are not contiguous by their buffers (PEP 574)."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how to pickle an object whose bytes Python would put into the message."""
        if isinstance(obj, np.ndarray) and not (obj.flags.c_contiguous or obj.flags.f_contiguous):
            return np.ascontiguousarray(obj).__reduce_ex__(5)
        if type(obj) is memoryview:
            return _view, (np.asarray(obj),)
        torch = sys.modules.get("torch")  # a tensor cannot exist before torch is imported
        if torch is not None and type(obj) is torch.Tensor and _is_plain(obj, torch):
            return _tensor_reduced(obj.contiguous(), torch)
        return NotImplemented


def _view(array: Any) -> memoryview:
    return memoryview(array).toreadonly()


def _is_plain(tensor: Any, torch: Any) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)
    )


def _tensor_reduced(tensor: Any, torch: Any) -> tuple[Any, ...]:
    try:
        return _tensor, (tensor.numpy(),)
    except TypeError:  # NumPy has no such dtype (bfloat16, float8): send integers of the same size
        return _tensor, (tensor.view(getattr(torch, f"int{8 * tensor.itemsize}")).numpy(), tensor.dtype)


def _tensor(array: np.ndarray[Any, Any], dtype: Any = None) -> Any:
    import torch

    tensor = torch.from_numpy(array)
    return tensor if dtype is None else tensor.view(dtype)
