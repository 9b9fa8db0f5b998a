"""torch's own files (pth) and safetensors."""

from __future__ import annotations

import io
import json
from typing import Any

from webdataset.config import safety
from webdataset.errors import EncodingError, FormatError, UnsafeContent
from webdataset.optional import require

from ._field_limit import check_empty
from ._torch_file import load_weights


def torch_loads(data: bytes) -> Any:
    """The value in a `.pth` field, on the CPU; no code runs unless `config.safety.weights_only` is switched off.

    >>> import torch
    >>> torch_loads(torch_dumps({"w": torch.arange(3)}))
    {'w': tensor([0, 1, 2])}
    """
    if safety.enforce:
        raise UnsafeContent("torch.loads is not allowed for security reasons when enforce_security is set")
    torch = require("torch", extra="torch", why="to decode 'pth'")
    if safety.weights_only:
        return load_weights(bytes(data))
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)


def torch_dumps(data: Any) -> bytes:
    """The value as `torch.save` writes it.

    >>> torch_dumps([1, 2])[:2]
    b'PK'
    """
    stream = io.BytesIO()
    require("torch", extra="torch", why="to encode 'pth'").save(data, stream)
    return stream.getvalue()


def safetensors_loads(data: bytes) -> dict[str, Any]:
    """The tensors by name: torch's if the file states `format: pt` or NumPy has no such type, else NumPy's.

    >>> import numpy as np
    >>> safetensors_loads(safetensors_dumps({"w": np.arange(3)}))
    {'w': array([0, 1, 2])}
    """
    flavour = "torch" if _wants_torch(data) else "numpy"
    if flavour == "torch":
        require("torch", extra="torch", why="to decode these 'safetensors'")
    loaded: dict[str, Any] = require(f"safetensors.{flavour}", extra="formats", why="to decode 'safetensors'").load(
        bytes(data)
    )
    for tensor in loaded.values():
        check_empty(tuple(tensor.shape), tensor.itemsize)
    return loaded


def _wants_torch(data: bytes) -> bool:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise FormatError("not a safetensors file")
    header = json.loads(bytes(data[8 : 8 + size]))
    if not isinstance(header, dict):
        raise FormatError("not a safetensors file")
    metadata = header.get("__metadata__") or {}
    unknown_to_numpy = any(
        str(entry.get("dtype", "")).startswith(("BF", "F8")) for entry in header.values() if isinstance(entry, dict)
    )
    return metadata.get("format") == "pt" or unknown_to_numpy


def safetensors_dumps(data: Any) -> bytes:
    """A dict of NumPy arrays or of torch tensors as safetensors; which of the two is noted in the file.

    >>> import numpy as np
    >>> len(safetensors_dumps({"w": np.zeros(2, "f4")}))
    104
    """
    if not isinstance(data, dict) or not data:
        raise EncodingError(f"expected a dict of named tensors, got {type(data).__name__}")
    is_torch = {hasattr(value, "detach") for value in data.values()}
    if len(is_torch) > 1:
        raise EncodingError("NumPy arrays and torch tensors do not mix in one safetensors field")
    flavour, note = ("torch", "pt") if is_torch.pop() else ("numpy", "np")
    module = require(f"safetensors.{flavour}", extra="formats", why="to encode 'safetensors'")
    try:
        return bytes(module.save(data, metadata={"format": note}))
    except Exception as error:
        raise EncodingError(f"has no safetensors form: {error}") from error
