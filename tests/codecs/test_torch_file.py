"""Fields that torch.save has written are read as `torch.load(weights_only=True)` reads them, by our own reader."""

import collections
import io
import os
import pickle
import zipfile
from dataclasses import dataclass

import pytest
import torch

from webdataset.codecs import torch_loads, unpickle_loads
from webdataset.errors import FormatError, UnsafeContent

X = torch.arange(24.0).reshape(2, 3, 4)
MODEL = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.LSTM(4, 2, 2))


def trained():
    optimizer = torch.optim.Adam(MODEL.parameters(), lr=0.1)
    for parameter in MODEL.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return {"model": MODEL.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "loss": 0.25}


def noted(tensor):
    tensor.note = "left"
    return tensor


class Grid(torch.Tensor):
    pass


@dataclass
class Point:
    x: int
    place: torch.Tensor


TYPES = [kind for kind in vars(torch).values() if isinstance(kind, torch.dtype) and "q" not in str(kind)]
BOTH = {
    "a tensor": X,
    "a number": torch.tensor(3),
    "nothing": torch.zeros(0, 3),
    "empty views of different types": (lambda each: [each, each.view(torch.int32)])(torch.zeros(0)),
    "views of one storage": [X, X[1], X.transpose(0, 2), X[..., ::2]],
    "an expanded tensor": torch.ones(1, 3).expand(5, 3),
    "bfloat16": X.bfloat16(),
    "complex conjugates": [torch.tensor([1 + 2j]).conj(), torch.tensor([1 + 2j]).conj().imag],
    "a gradient": X.clone().requires_grad_(),
    "a parameter": torch.nn.Parameter(X),
    "a parameter with attributes": noted(torch.nn.Parameter(X)),
    "a tensor with attributes": noted(X.clone()),
    "a buffer": torch.nn.Buffer(X.clone(), persistent=False) if hasattr(torch.nn, "Buffer") else X,
    "what a training saves": trained(),
    "plain values": [
        1,
        -(2**70),
        0.5,
        "ü",
        True,
        None,
        (),
        (1, 2, 3, 4),
        {1: {2: [3]}},
        {1, 2},
        1j,
        b"ab",
        bytearray(2),
    ],
    "collections": [collections.OrderedDict(a=1), collections.Counter("aab")],
    "sizes, types and devices": [X.shape, torch.int8, torch.float8_e5m2, torch.device("cuda:1"), torch.sparse_coo],
    "storages": torch.storage.TypedStorage(wrap_storage=X.untyped_storage(), dtype=X.dtype, _internal=True),
}
ARCHIVES = {
    **{
        str(kind): torch.zeros(3, dtype=kind)
        for kind in TYPES
        if kind.itemsize and not str(kind)[-1] in "1234567" or "64" in str(kind)
    },
    "untyped storages": X.clone().untyped_storage(),
    "sparse": [torch.eye(3).to_sparse(), torch.eye(3).to_sparse().coalesce()],
    "compressed sparse": lambda: [
        torch.eye(4).to_sparse_csr(),
        torch.eye(4).to_sparse_csc(),
        torch.eye(4).to_sparse_bsr(2),
    ],
}
HONEST = [
    pytest.param(value, old, id=f"{name}{' (old)' * old}") for old in (False, True) for name, value in BOTH.items()
]
HONEST += [pytest.param(value, False, id=name) for name, value in ARCHIVES.items()]


def saved(value, old=False):
    stream = io.BytesIO()
    torch.save(value, stream, _use_new_zipfile_serialization=not old)
    return stream.getvalue()


def described(value):
    """All of a value that can be compared."""
    if isinstance(value, torch.Tensor):
        dense = value.detach().to_dense().resolve_conj().resolve_neg()
        where = (
            None
            if value.layout != torch.strided
            else (value.stride(), value.storage_offset(), value.untyped_storage().nbytes())
        )
        items = (
            dense.clone(memory_format=torch.contiguous_format).view(torch.uint8).tolist()
            if dense.ndim
            else dense.tolist()
        )
        bits = (value.is_conj(), value.is_neg())
        return type(value), value.dtype, value.layout, value.shape, value.requires_grad, where, bits, items, vars(value)
    if isinstance(value, torch.storage.TypedStorage):
        return type(value), value.dtype, value.tolist()
    if isinstance(value, dict):
        return (
            type(value),
            [(described(key), described(each)) for key, each in value.items()],
            getattr(value, "_metadata", None),
        )
    if isinstance(value, list | tuple):
        return type(value), [described(each) for each in value]
    return type(value), value


@pytest.mark.filterwarnings("ignore:TypedStorage", "ignore:Sparse")
@pytest.mark.parametrize(("value", "old"), HONEST)
def test_the_values_are_those_of_torch(value, old):
    data = saved(value() if callable(value) else value, old)
    theirs = torch.load(io.BytesIO(data), weights_only=True)
    assert described(torch_loads(data)) == described(theirs)


@pytest.mark.parametrize("old", [False, True])
def test_views_share_their_storage(old):
    whole, part = torch_loads(saved([X, X[1]], old))
    part.zero_()
    assert whole[1].sum() == 0


@pytest.mark.parametrize("old", [False, True])
def test_classes_that_the_user_allows_torch_to_load(old):
    value = {"point": Point(1, X), "fields": collections.UserDict(a=1)}
    data = saved(value, old)
    with pytest.raises(UnsafeContent, match="add_safe_globals"):
        torch_loads(data)
    with torch.serialization.safe_globals([Point, collections.UserDict]):
        loaded = torch_loads(data)
    assert loaded["fields"] == value["fields"]
    assert loaded["point"].place.equal(X)
    with torch.serialization.safe_globals([(Point, f"{__name__}.Point"), collections.UserDict]):
        assert torch_loads(data)["point"].x == 1
    grid = saved(X.as_subclass(Grid), old)
    with torch.serialization.safe_globals([Grid]):
        assert type(torch_loads(grid)) is Grid


def test_what_torch_never_allows():
    with torch.serialization.safe_globals([os.system]), pytest.raises(UnsafeContent, match="posix.system"):
        torch_loads(b"cposix\nsystem\n(S'true'\ntR.")


def test_a_sparse_tensor_in_the_older_format_is_refused_by_name():
    with pytest.raises(UnsafeContent, match="sparse tensor in torch's older format"):
        torch_loads(saved(torch.eye(3).to_sparse(), old=True))


def rewritten(data, name, content):
    """The archive with another content of one file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as theirs, zipfile.ZipFile(stream, "w") as ours:
        for each in theirs.namelist():
            ours.writestr(each, content if each.endswith(name) else theirs.read(each))
    return stream.getvalue()


def test_a_storage_that_is_too_short():
    for data in (saved(X, old=True)[:-20], rewritten(saved(X), "data/0", bytes(92))):
        with pytest.raises(FormatError, match="storage needs 96 bytes, and has"):
            torch_loads(data)


def test_sparse_indices_outside_of_the_tensor():
    data = saved(torch.eye(3).to_sparse())
    with pytest.raises(RuntimeError, match="inconsistent with indices"):
        torch_loads(rewritten(data, "data/0", b"\x7f" * 48))


def test_another_byte_order():
    with pytest.raises(FormatError, match="another byte order"):
        torch_loads(rewritten(saved(X), "byteorder", b"big"))


def test_pickled_state_dicts_keep_their_metadata():
    value = MODEL.state_dict()
    assert described(unpickle_loads(pickle.dumps(value, 2))) == described(value)
