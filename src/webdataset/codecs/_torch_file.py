"""torch's own files: a zip archive of a pickle and its storages, or the older format without an archive.

Torch's own reader is not used: its restricted unpickler has no limits of time and memory.
"""

from __future__ import annotations

import io
import sys
import zipfile
from typing import Any

from webdataset.errors import FormatError, UnsafeContent

from ._field_limit import check_zip, read_member
from ._pickle_budget import Budget
from ._pickle_globals import Names, global_name
from ._torch_storages import TorchPickle, load_pickles

_TRUST = "if you trust the data: wds.pytorch_weights_only = False, or WDS_PYTORCH_WEIGHTS_ONLY=0"
_ZIP = b"PK\3\4"
# Torch does not let the user allow what is in these modules.
_NEVER = ("nt.", "os.", "posix.", "sys.")


class _TorchNames(Names):
    """The names that a file may refer to: harmless ones, and those that the user has allowed torch to load."""

    hint = f"allow the class with torch.serialization.add_safe_globals([…]), or, {_TRUST}"

    def __init__(self) -> None:
        import torch

        super().__init__()
        for allowed in getattr(torch.serialization, "get_safe_globals", list)():  # since torch 2.4
            value, name = allowed if isinstance(allowed, tuple) else (allowed, global_name(allowed))
            if not name.startswith(_NEVER):
                self._trusted[name] = value


class _OldNames(_TorchNames):
    """In the older format the indices of sparse tensors come too late to be checked."""

    def find(self, module: str, name: str) -> Any:
        if name == "_rebuild_sparse_tensor":
            raise UnsafeContent("the file has a sparse tensor in torch's older format", hint=_TRUST)
        return super().find(module, name)


def load_weights(data: bytes) -> Any:
    """The value that `torch.load(weights_only=True)` returns, on the CPU.

    >>> import torch
    >>> stream = io.BytesIO()
    >>> torch.save([1, torch.arange(2)], stream)
    >>> load_weights(stream.getvalue())
    [1, tensor([0, 1])]
    """
    if len(data) < len(_ZIP):
        raise FormatError("the file is truncated", hint="copy or write it again")
    budget = Budget(len(data))
    if data[: len(_ZIP)] != _ZIP:
        return load_pickles(data, _OldNames(), budget)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_zip(archive)
        members = {info.filename.partition("/")[2]: info for info in archive.infolist()}

        def read(name: str) -> bytes:
            if name not in members:
                raise FormatError(f"the archive has no file {name!r}: torch.save has not written it")
            return read_member(archive, members[name])

        if "byteorder" in members and read("byteorder") != sys.byteorder.encode():
            raise FormatError("the tensors were saved on a machine of another byte order")
        return TorchPickle(read("data.pkl"), _TorchNames(), budget, lambda key, _: read(f"data/{key}")).run()
